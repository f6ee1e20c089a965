@load ./columns
@load ./main
