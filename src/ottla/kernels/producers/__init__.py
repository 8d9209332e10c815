"""Producers and transactions: sequences, state, markers, partitions."""
