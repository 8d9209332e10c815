"""Files and objects: list, open, read, write; nothing here knows Kafka."""
