"""The site of the manual: reference pages made from the code, and the hooks that add them."""
