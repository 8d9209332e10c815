"""What Kafka's cleaner keeps: the newest of each key, batches, records."""
