@load ./columns
@load ./main
@load ./accounting
