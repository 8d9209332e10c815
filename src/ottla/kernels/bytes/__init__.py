"""Integers, varints, checksums and copies over arrays of bytes."""
