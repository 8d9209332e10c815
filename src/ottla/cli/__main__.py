"""`python -m ottla.cli`."""

from ottla.cli import start

start()
