"""How the output of a job appears: staging, journal, locks, account."""
