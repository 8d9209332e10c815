"""What a broker does with an append: check, assign, store."""
