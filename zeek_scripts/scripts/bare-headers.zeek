##! Entry point for `zeek -b` with the plugin GiScope::Headers: writes only packet headers.

@load ./headers

redef ignore_checksums = T;
redef GiScope::analyze_subscribers = F;
