##! Entry for `zeek -b` with the plugin GiScope::Headers: only the packets' headers.

@load ./headers

redef ignore_checksums = T;
redef GiScope::analyze_subscribers = F;
