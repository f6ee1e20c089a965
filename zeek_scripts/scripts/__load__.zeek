##! Entry point with Zeek's own scripts. The plugin writes packets if it is installed, else the script.

@load ./accounting

@ifdef ( GiScope::start_headers )
@load ./headers
@else
@load ./main
@endif
