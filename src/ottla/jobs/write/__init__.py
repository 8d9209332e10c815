"""Rows to new segments behind what is there."""
