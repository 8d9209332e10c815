"""What the bytes are: declarations only."""
