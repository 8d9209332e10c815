"""One text that says which records are wanted: what it means, and what it lets a reader skip."""
