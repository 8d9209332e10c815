"""Write segments and all that lies beside them."""
