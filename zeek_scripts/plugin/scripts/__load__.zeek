# headers.zeek of the package uses the plugin.
