"""Which logs there are, from where to where to read them, and where those bytes lie."""
