"""Check partitions, and say what a broker would do with them."""
