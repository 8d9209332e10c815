"""Tables of Iceberg and Delta: files that the tasks write as ever, and one commit for all of them.

What was exported is said by the table itself (`state`): an export reads that, plans from it, and
commits only if it is still so (`plan`, `commit`). Only `delta` and `iceberg` know the libraries.
"""
