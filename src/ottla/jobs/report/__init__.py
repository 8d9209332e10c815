"""What is there, how it is, and what it would cost otherwise."""
