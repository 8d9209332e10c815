"""The files of a log directory: names, layouts, and which belong together."""
