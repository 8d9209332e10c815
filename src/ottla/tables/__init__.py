"""Logs as tables for Python programs: `ottla.open`, scans, and the jobs as methods."""
