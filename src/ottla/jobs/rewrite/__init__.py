"""Partitions written anew: convert, restore, salvage."""
