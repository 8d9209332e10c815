"""Files on disk: segments, what lies beside them, and how new ones are published."""
