"""The frames of codecs, many batches in one pass."""
