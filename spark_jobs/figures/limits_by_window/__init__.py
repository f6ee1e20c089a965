"""What limits transfers, and would larger windows help? Source: Zhang et al., SIGCOMM 2002."""
