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
_.__dir__  # of the package
Frame  # types of what needs Spark, pandas or Polars
pd
pl
_._repr_html_  # notebooks call it
batch_size  # Polars says how large batches should be
_._value_  # of an enum
_.atexit  # of a finalizer: nothing runs when the process ends
_.writeable  # a flag of NumPy
_._check_value  # of argparse
_.required

# Numba calls or reads these, of its own classes that ours are made from.
_.get_source_stamp
_.get_disambiguator
_.get_call_template
_.define_pipelines
_.get_pointer_to_function
_.set_env
_.codegen
_.library
_.on_start
_.on_end
_.get_cache_path
_._cache
_._impl_class
_._locator
_._filename_base
_._finalized
_._optimize_final_module
_._finalize_final_module
environment
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

_.load_overload  # Numba calls it

# Python programs call these of what `ottla.open` gives; so do tests and examples.
_.restore
_.export
_.to_polars
_.lazy
_.to_duckdb
_.to_spark
