"""Tables of Delta Lake by `deltalake`: the only module that knows it.

What was exported of a partition is an application transaction, `ottla/TOPIC-ID/PARTITION`, whose
version is the next offset: it is in the same commit as the files, and checkpoints keep it. The
library does not refuse an old version of one; but of two commits from one state of the table, that
both have it, the second fails.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.errors import OptionError, PublishError
from ottla.extras import missing_extra
from ottla.format.names import TopicPartition
from ottla.jobs.export.lake.files import MeasuredFile
from ottla.jobs.export.lake.layout import Layout, plain_columns, values_of
from ottla.jobs.export.lake.state import (
    FORM,
    JOB,
    TOPIC_IDS,
    Addition,
    TableState,
    moved_on,
    of_names,
    parse_state,
)
from ottla.storage.object_store import (
    S3,
    StorageOptions,
    find_endpoint,
    find_region,
    parse_address,
)
from ottla.storage.paths import is_remote, local_path, real_path

_LAST_YEAR: Final = 253_402_300_799_999_999  # microseconds: ISO has four digits for a year
_FIRST_YEAR: Final = -62_135_596_800_000_000


class DeltaLake:
    """A table in a folder or below a prefix."""

    def __init__(self, out: str, layout: Layout, storage: StorageOptions) -> None:
        try:
            import deltalake
            from deltalake import exceptions, transaction
        except ImportError as error:
            raise missing_extra("delta", "tables of Delta need deltalake") from error
        self._library, self._errors, self._actions = deltalake, exceptions, transaction
        self.location = out
        self._layout = layout
        self._uri = out if is_remote(out) else real_path(local_path(out))
        self._storage = _storage_of(out, storage)

    def read_state(self, names: Iterable[TopicPartition]) -> TableState | None:
        table = self._load()
        return None if table is None else self._state_of(table, names)

    def _state_of(self, table: Any, names: Iterable[TopicPartition]) -> TableState:
        properties = table.metadata().configuration
        if FORM not in properties:
            raise PublishError(f"{self.location} was not made by ottla: choose another TABLE")
        state = parse_state(properties, self.location)
        found = {name: table.transaction_version(_app_id(name, state.ids)) for name in names}
        known = {name: offset for name, offset in found.items() if offset is not None}
        return TableState(state.form, state.ids, known)

    def _load(self) -> Any:
        options = self._storage or None
        with self._asked():
            try:
                return self._library.DeltaTable(self._uri, storage_options=options)
            except self._errors.TableNotFoundError:
                return None

    def read_columns(self) -> pa.Schema:
        table = self._load()
        assert table is not None
        return plain_columns(pa.schema(table.schema().to_arrow()))

    def append(self, addition: Addition) -> None:
        try:
            with self._asked():
                self._prepare(addition)
                self._commit(addition)
        except PublishError:
            if not self.has_files(addition):  # or only the answer was lost
                raise

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except (self._errors.DeltaError, OSError) as error:
            why = str(error).partition("\n")[0]
            raise PublishError(f"{self.location}: {why}") from error

    def _prepare(self, addition: Addition) -> None:
        """Have a table with these columns and topics; without their files it means nothing yet."""
        table = self._load()
        if table is None:
            table = self._create(addition)
        there = plain_columns(pa.schema(table.schema().to_arrow()))
        if not addition.columns.equals(there) and _missing(addition.columns, there):
            empty = pa.Table.from_batches([], addition.columns)
            self._library.write_deltalake(table, empty, mode="append", schema_mode="merge")
            table = self._load()
        if self._state_of(table, ()).ids != addition.ids:
            ids = {TOPIC_IDS: json.dumps(dict(addition.ids))}
            table.alter.set_table_properties(ids, raise_if_not_exists=False)

    def _create(self, addition: Addition) -> Any:
        return self._library.DeltaTable.create(
            self._uri,
            addition.columns,
            partition_by=list(self._layout.keys),
            configuration={
                FORM: json.dumps(dict(addition.form)),
                TOPIC_IDS: json.dumps(dict(addition.ids)),
            },
            storage_options=self._storage or None,
            raise_if_key_not_exists=False,
        )

    def _commit(self, addition: Addition) -> None:
        """One commit, from the very state that is looked at: the library finds what came since."""
        table = self._load()
        state = self._state_of(table, addition.upto)
        if state.next != of_names(addition.after, addition.upto):
            raise moved_on(self.location)
        transactions = [
            self._actions.Transaction(_app_id(name, addition.ids), offset)
            for name, offset in addition.upto.items()
        ]
        table.create_write_transaction(
            [self._add(file) for file in addition.files],
            "append",
            table.schema(),
            list(self._layout.keys),
            commit_properties=self._actions.CommitProperties(
                custom_metadata={JOB: addition.job}, app_transactions=transactions
            ),
        )

    def _add(self, file: MeasuredFile) -> Any:
        return self._actions.AddAction(
            path=file.target,
            size=file.size,
            partition_values=values_of(file.target),
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=json.dumps(_statistics(file, self._layout)),
        )

    def has_files(self, addition: Addition) -> bool:
        table = self._load()
        if table is None:
            return False
        there = set(self._targets(table))
        return all(file.target in there for file in addition.files)

    def referenced(self, targets: Iterable[str]) -> set[str]:
        table = self._load()
        wanted, found = set(targets), set[str]()
        if table is None:
            return found
        for version in range(table.version(), -1, -1):
            if wanted <= found:
                break
            try:
                table.load_as_version(version)
            except self._errors.DeltaError:
                break  # its log was cleaned up: nobody can read it any more
            found |= wanted & set(self._targets(table))
        return found

    def _targets(self, table: Any) -> Iterable[str]:
        paths = pa.table(table.get_add_actions()).column("path").to_pylist()
        return (str(path) for path in paths)


def _app_id(name: TopicPartition, ids: Mapping[str, str]) -> str:
    """
    >>> _app_id(TopicPartition("orders", 3), {"orders": "Zk3vcLwLSSq8JY-yRzFBqw"})
    'ottla/Zk3vcLwLSSq8JY-yRzFBqw/3'
    """
    topic = str(name.topic)
    return f"ottla/{ids.get(topic) or topic}/{name.partition}"


def _missing(wanted: pa.Schema, there: pa.Schema) -> bool:
    """Whether there are columns, or fields of them, that the table has not."""
    known = {each.name: each.type for each in there}
    return any(known.get(each.name) != each.type for each in wanted)


def _statistics(file: MeasuredFile, layout: Layout) -> dict[str, Any]:
    """What lets readers skip a file by partition, offset and time."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for name, (low, high) in file.bounds.items():
        if name != "timestamp":
            least[name], greatest[name] = low, high
        elif low >= _FIRST_YEAR and high <= _LAST_YEAR:
            least[name], greatest[name] = _iso(low), _iso(high)
    nulls = dict.fromkeys(least, 0)
    told = {"minValues": least, "maxValues": greatest, "nullCount": nulls}
    if layout.nested:
        told = {name: {"kafka": inner} for name, inner in told.items()}
    return {"numRecords": file.rows, **told}


def _iso(microseconds: int) -> str:
    """
    >>> _iso(-1000)
    '1969-12-31T23:59:59.999Z'
    """
    return f"{np.datetime64(microseconds // 1000, 'ms')}Z"


def _storage_of(out: str, storage: StorageOptions) -> dict[str, str]:
    """What the library is told of an object store; secrets it takes from the environment."""
    if not is_remote(out):
        return {}
    if parse_address(out).store != S3:
        raise OptionError(
            f"{out}: tables of Delta are written to S3 and to disks; name a place there, or export"
            " files of Parquet"
        )
    endpoint, region = find_endpoint(S3, storage), find_region(storage)
    options = {"aws_conditional_put": "etag"}  # only one writer makes a version
    if endpoint:
        options |= {"aws_endpoint_url": endpoint.url, "aws_allow_http": "true"}
        region = region or "us-east-1"
    options |= {"aws_region": region} if region else {}
    options |= {"aws_profile": storage.profile} if storage.profile else {}
    return options | ({"aws_skip_signature": "true"} if storage.anonymous else {})
