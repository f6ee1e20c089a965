##! Entry for `zeek -b`: only the packet log, without Zeek's protocol analysis and its other logs.

@load ./main

redef ignore_checksums = T;
