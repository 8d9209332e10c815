"""Schemas of keys and values as pure functions: what they say, and what bytes are by them."""
