"""The flags of each command, without what runs it: `--help` imports nothing heavy."""
