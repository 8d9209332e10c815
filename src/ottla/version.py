"""The version, here and nowhere else: a zipped package has no metadata to ask."""

VERSION = "0.2.0"
