"""Clone: a backup as a cluster that boots."""
