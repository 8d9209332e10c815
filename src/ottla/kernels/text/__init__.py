"""Batches and records as the characters that commands print."""
