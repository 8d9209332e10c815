"""The engine that runs jobs in this process, and how any engine shows its progress."""
