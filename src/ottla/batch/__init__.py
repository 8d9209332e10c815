"""The record format: bytes to `Batches` and records, and back. Opens no file."""
