"""What Kafka's cleaner may clean, what it keeps, and what it writes."""
