"""Records as files that other tools read."""
