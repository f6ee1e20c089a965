##! With Zeek's own scripts: packets by the plugin where it is installed, else by the script.

@load ./accounting

@ifdef ( GiScope::start_headers )
@load ./headers
@else
@load ./main
@endif
