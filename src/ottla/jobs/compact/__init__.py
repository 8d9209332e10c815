"""Compaction as Kafka's cleaner does it, in tasks."""
