# What uses the plugin is in headers.zeek of the package.
