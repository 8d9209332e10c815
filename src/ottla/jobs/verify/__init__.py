"""Every rule on everything, in tasks."""
