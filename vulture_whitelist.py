"""Names that nothing in src calls, and who does; `make lint` reports every other one."""

# Spark calls the methods of a data source by name, some with arguments that we do not need.
_.abort
_.streamReader
_.streamWriter
_.initialOffset
_.prepareForTriggerAvailableNow
_.getDefaultReadLimit
_.latestOffset
_.reportLatestOffset
_.batchId

# Numba gives every intrinsic its typing context.
typing_context

# Python and libraries read these.
_.__getattr__  # of the package: names that need Spark are imported when asked for
_._value_  # of an enum
_.atexit  # of a finalizer: nothing runs when the process ends
_.writeable  # a flag of NumPy
_.CACHE_DIR  # of Numba's configuration
_.colour  # a cell is taken apart as a tuple

# Members of enums that are looked up by their value.
_.PARTIAL
_.GROUP_OFFSETS
_.TRANSACTIONAL_IDS
_.TOPICS
_.CONFIGS
_.METADATA

# The benchmark of internal topics reads one partition; so do tests.
read_partition

# `ottla clone` will write these files.
write_meta_properties
write_clean_shutdown
