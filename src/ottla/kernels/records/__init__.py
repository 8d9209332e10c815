"""Batches and records as bytes: cut, validate, locate, copy, measure, write, stamp."""
