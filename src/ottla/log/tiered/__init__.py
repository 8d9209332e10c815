"""What remote storage keeps of logs: which objects there are, and which of them are the log."""
