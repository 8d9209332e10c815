"""Options: their names, forms, defaults and refusals, each once."""
