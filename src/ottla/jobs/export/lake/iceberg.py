"""Tables of Iceberg by `pyiceberg`: the only module that knows it.

What was exported is in the summary of each snapshot that adds files, and in the properties of the
table, which stay when snapshots expire. The library answers a conflict by adding the files to the
new head, which is not what was planned from: tables are made with no such retries.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.errors import OptionError, PublishError, Term
from ottla.extras import missing_extra
from ottla.format.names import TopicPartition
from ottla.jobs.export.lake.files import MeasuredFile
from ottla.jobs.export.lake.layout import (
    CATALOG_FILE,
    DAY,
    STRUCT,
    Layout,
    plain_columns,
    values_of,
)
from ottla.jobs.export.lake.state import (
    FORM,
    JOB,
    OFFSETS,
    TOPIC_IDS,
    Addition,
    TableState,
    encode_offsets,
    moved_on,
    of_names,
    parse_state,
    same_topics,
)
from ottla.options.export import ExportOptions
from ottla.storage.paths import is_remote, join, local_path, real_path
from ottla.storage.writing import make_folders

IDENTIFIER: Final = ("ottla", "records")  # in a catalog of its own
_RETRIES: Final = "commit.retry.num-retries"
_NAMES: Final = "schema.name-mapping.default"
_EPOCH: Final = np.datetime64(0, "D")


def open_iceberg(target: str, options: ExportOptions, layout: Layout) -> "IcebergLake":
    """A table by its name in a catalog, or in a folder that holds its catalog."""
    try:
        import pyiceberg.catalog  # noqa: F401
    except ImportError as error:
        raise missing_extra("iceberg", "tables of Iceberg need pyiceberg") from error
    if options.catalog is not None:
        catalog = _named_catalog(options.catalog)
        return IcebergLake(lambda: nullcontext(catalog), tuple(target.split(".")), layout, None)
    if is_remote(target):
        raise OptionError(
            f"{target} needs a catalog that all writers share, one of .pyiceberg.yaml: name it by ",
            Term.CATALOG,
            ", and the table as NAMESPACE.TABLE",
        )
    folder = real_path(local_path(target))
    return IcebergLake(lambda: _own_catalog(folder), IDENTIFIER, layout, folder)


def _named_catalog(name: str) -> Any:
    """A catalog of the user. If two exports find its database empty, only one can fill it."""
    from pyiceberg.catalog import load_catalog
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return load_catalog(name)
    except (ValueError, TypeError) as error:
        raise OptionError(f"the catalog {name}: {error}") from error
    except (SQLAlchemyError, OSError) as error:
        why = str(error).partition("\n")[0]
        raise PublishError(f"the catalog {name}: {why}") from error


def _own_catalog(folder: str) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    make_folders(folder)
    return SqlCatalog(
        "ottla", uri=f"sqlite:///{join(folder, CATALOG_FILE)}", warehouse=f"file://{folder}"
    )


class IcebergLake:
    """A table in a catalog, which is opened for each question; `folder` if it is its own."""

    def __init__(
        self,
        catalog: Callable[[], AbstractContextManager[Any]],
        identifier: tuple[str, ...],
        layout: Layout,
        folder: str | None,
    ) -> None:
        from pyiceberg import exceptions
        from sqlalchemy.exc import SQLAlchemyError

        self._errors = exceptions
        self._failed = (
            exceptions.CommitFailedException,
            exceptions.CommitStateUnknownException,
            exceptions.TableAlreadyExistsError,
            exceptions.ServerError,
            exceptions.RESTError,
            SQLAlchemyError,
            OSError,
        )
        self._catalog = catalog
        self._identifier = identifier
        self._layout = layout
        self._folder = folder
        self.location = folder or self._find_location()

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with self._catalog() as catalog:
                yield catalog
        except self._failed as error:
            why = str(error).partition("\n")[0]
            raise PublishError(f"{'.'.join(self._identifier)}: {why}") from error

    def _find_location(self) -> str:
        """Where a catalog has the table, or would have it."""
        with self._opened() as catalog:
            table = self._load(catalog)
            if table is not None:
                return str(table.location())
            catalog.create_namespace_if_not_exists(self._identifier[:-1])
            staged = catalog.create_table_transaction(self._identifier, self._layout.table)
            return str(staged.table_metadata.location)

    def _load(self, catalog: Any) -> Any:
        try:
            return catalog.load_table(self._identifier)
        except (self._errors.NoSuchTableError, self._errors.NoSuchNamespaceError):
            return None

    @contextmanager
    def _loaded(self) -> Iterator[Any]:
        """The table, or None; to look makes no catalog."""
        if self._folder is not None and not os.path.isfile(join(self._folder, CATALOG_FILE)):
            yield None
            return
        with self._opened() as catalog:
            yield self._load(catalog)

    def read_state(self, names: Iterable[TopicPartition]) -> TableState | None:
        with self._loaded() as table:
            if table is None:
                return None
            state = self._state_of(table)
            return TableState(state.form, state.ids, of_names(state.next, names))

    def _state_of(self, table: Any) -> TableState:
        """By the newest snapshot that tells it; who rolls a table back takes the state back too."""
        told = dict(table.properties)
        if FORM not in told:
            raise PublishError(f"{self.location} was not made by ottla: choose another TABLE")
        snapshot = table.current_snapshot()
        while snapshot is not None:
            summary = snapshot.summary.additional_properties if snapshot.summary else {}
            if OFFSETS in summary:
                told |= {name: summary[name] for name in (OFFSETS, TOPIC_IDS) if name in summary}
                break
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        return parse_state(told, self.location)  # of the table itself, where snapshots expired

    def read_columns(self) -> pa.Schema:
        with self._loaded() as table:
            return plain_columns(table.schema().as_arrow())

    def append(self, addition: Addition) -> None:
        try:
            with self._opened() as catalog:
                self._commit(catalog, addition)
        except PublishError:
            if not self.has_files(addition):  # or only the answer was lost
                raise

    def _commit(self, catalog: Any, addition: Addition) -> None:
        table = self._load(catalog) or self._create(catalog, addition)
        if table.properties.get(_RETRIES) != "0":
            with table.transaction() as transaction:
                transaction.set_properties({_RETRIES: "0"})
            table = catalog.load_table(self._identifier)
        there = same_topics(self._state_of(table), addition.ids)
        if of_names(there, addition.upto) != of_names(addition.after, addition.upto):
            raise moved_on(self.location)
        offsets = encode_offsets(there | addition.upto)
        told = {OFFSETS: offsets, TOPIC_IDS: json.dumps(dict(addition.ids))}
        with table.transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(addition.columns)
            schema = transaction.table_metadata.schema()
            transaction.set_properties(told | {_NAMES: schema.name_mapping.model_dump_json()})
            update = transaction.update_snapshot(told | {JOB: addition.job})
            with update.fast_append() as snapshot:
                for file in addition.files:
                    snapshot.append_data_file(self._data_file(file, transaction.table_metadata))

    def _create(self, catalog: Any, addition: Addition) -> Any:
        catalog.create_namespace_if_not_exists(self._identifier[:-1])
        with (
            catalog.create_table_transaction(
                self._identifier,
                addition.columns,
                location=self._uri(),
                properties={FORM: json.dumps(dict(addition.form)), _RETRIES: "0"},
            ) as transaction,
            transaction.update_spec() as spec,
        ):
            for key in self._layout.keys:
                spec.add_field(*self._partition_field(key))
        return catalog.load_table(self._identifier)

    def _partition_field(self, key: str) -> tuple[str, Any, str]:
        """The column of a partition, what is made of it, and its name."""
        from pyiceberg.transforms import DayTransform, IdentityTransform

        within = f"{STRUCT}." if self._layout.nested else ""
        if key == DAY:
            return f"{within}timestamp", DayTransform(), DAY
        # A name must not be that of a column, unless it is that column.
        return f"{within}{key}", IdentityTransform(), key

    def _data_file(self, file: MeasuredFile, metadata: Any) -> Any:
        from pyiceberg.conversions import to_bytes
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        schema = metadata.schema()
        low, high = {}, {}
        for name, (least, greatest) in file.bounds.items():
            column = schema.find_field(self._layout.measured[name])
            low[column.field_id] = to_bytes(column.field_type, least)
            high[column.field_id] = to_bytes(column.field_type, greatest)
        values = values_of(file.target)
        partition = [_partition_value(key, values[key]) for key in self._layout.keys]
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._uri()}/{file.target}",
            file_format=FileFormat.PARQUET,
            partition=Record(*partition),
            record_count=file.rows,
            file_size_in_bytes=file.size,
            column_sizes={},
            value_counts=dict.fromkeys(low, file.rows),
            null_value_counts=dict.fromkeys(low, 0),
            nan_value_counts={},
            lower_bounds=low,
            upper_bounds=high,
            spec_id=metadata.default_spec_id,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
        )

    def _uri(self) -> str:
        """The table as the paths of its files begin."""
        location = self.location.rstrip("/")
        return location if "://" in location else f"file://{location}"

    def has_files(self, addition: Addition) -> bool:
        with self._loaded() as table:
            current = None if table is None else table.current_snapshot()
            if current is None:
                return False
            wanted = {file.target for file in addition.files}
            return wanted <= set(self._targets(table, [current]))

    def referenced(self, targets: Iterable[str]) -> set[str]:
        with self._loaded() as table:
            if table is None:
                return set()
            return set(targets) & set(self._targets(table, table.snapshots()))

    def _targets(self, table: Any, snapshots: Iterable[Any]) -> Iterator[str]:
        seen = set()
        for snapshot in snapshots:
            for manifest in snapshot.manifests(table.io):
                if manifest.manifest_path in seen:
                    continue
                seen.add(manifest.manifest_path)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                    yield entry.data_file.file_path.removeprefix(f"{self._uri()}/")


def _partition_value(key: str, value: str) -> str | int:
    if key == DAY:
        return int((np.datetime64(value, "D") - _EPOCH).astype(np.int64))
    return int(value) if key == "partition" else value
