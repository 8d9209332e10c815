"""Datums of Avro to columns: a schema is a program, and two passes run it over all datums."""
