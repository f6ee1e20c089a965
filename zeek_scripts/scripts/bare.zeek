##! Entry point for `zeek -b`: writes only the packet log, without Zeek's protocol analysis and other logs.

@load ./main

redef ignore_checksums = T;
