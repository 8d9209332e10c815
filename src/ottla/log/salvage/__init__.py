"""Save what can be saved of a damaged partition."""
