"""The jobs of the commands, with what a Python program says instead of flags."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.catalog.catalog import Catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.connector import microseconds, times_fit
from ottla.dump.committed import with_lag
from ottla.dump.transactions import TransactionQuery, transaction_rows
from ottla.engines import EngineOptions, start_engine
from ottla.errors import Row, Violation, require_sound
from ottla.internal.views import VIEWS, time_columns
from ottla.jobs.compact.plan import Compaction
from ottla.jobs.compact.run import compact
from ottla.jobs.engine import Engine
from ottla.jobs.output import OutputJob, claim_apart
from ottla.jobs.read.internal_topics import find_internal_topic, read_current
from ottla.jobs.run import run_output_job
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import FOUND_SCHEMA, verify_chosen
from ottla.publish.account import account_row
from ottla.tables.result import ResultTable

_TEXTS: Final = {"topic": pa.string(), "partition": pa.int32(), "seconds": pa.float64()}
_ACCOUNT: Final = pa.schema(
    [(name, _TEXTS.get(name, pa.int64())) for name in account_row(None, None)]
)
_TRANSACTIONS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("state", pa.string()),
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("coordinatorEpoch", pa.int32()),
        ("firstOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("firstTimestamp", pa.int64()),
        ("lastTimestamp", pa.int64()),
        ("batches", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("hanging", pa.bool_()),
    ]
)


def run_output(
    chosen: ChosenLogs,
    out: str | None,
    plan: Callable[[ChosenLogs], OutputJob],
    engine: EngineOptions,
) -> ResultTable:
    """Plan and run a job that writes; its account. Only the plan may know where it writes to."""
    with nullcontext() if out is None else claim_apart(out, chosen.paths):
        job = plan(chosen)
        with _started(job.title, (part.size for part in job.parts.values()), engine) as running:
            return account_of(job.title, run_output_job(running, job))


def run_compaction(
    chosen: ChosenLogs, out: str, plan: Callable[[ChosenLogs], Compaction], engine: EngineOptions
) -> ResultTable:
    """Plan and run a compaction; its account."""
    with claim_apart(out, chosen.paths):
        job = plan(chosen)
        sizes = (segment.log.size for log in job.logs for segment in log.partition.segments)
        with _started("compact", sizes, engine) as running:
            return account_of("compact", compact(running, job))


@contextmanager
def _started(title: str, sizes: Iterable[int], options: EngineOptions) -> Iterator[Engine]:
    with start_engine(title, sum(sizes), options, lambda _: None) as engine:
        yield engine


def account_of(title: str, rows: list[Row]) -> ResultTable:
    """An account as a table: a row for each partition."""
    return ResultTable(f"{title}: the account", pa.Table.from_pylist(rows, _ACCOUNT), rows)


def verify_logs(chosen: ChosenLogs, options: VerifyOptions, engine: EngineOptions) -> ResultTable:
    """Every rule on every byte: the violations, and the account of what was read."""
    account: list[Row] = []
    partitions = chosen.partitions
    sizes = (segment.log.size for each in partitions for segment in each.segments)
    with _started("verify", sizes, engine) as running:
        rows = list(verify_chosen(running, chosen, options, account))
    title = f"verify: {len(rows)} violations in {len(partitions)} partitions"
    return ResultTable(title, pa.Table.from_pylist(rows, FOUND_SCHEMA), account)


def list_transactions(chosen: ChosenLogs, query: TransactionQuery) -> ResultTable:
    """A row for each transaction, open or ended; what cannot be read is an error."""
    problems: list[Violation] = []
    rows = []
    for row in transaction_rows(chosen, query, problems):
        if row["type"] == "partition":
            continue
        last = row.get("lastTimestamp", row.get("timestamp"))
        told = {"state": row["type"], "lastTimestamp": last, "hanging": row.get("hanging", False)}
        rows.append({name: (row | told)[name] for name in _TRANSACTIONS.names})
    require_sound(problems)
    count = sum(row["state"] == "open" for row in rows)
    title = f"{len(rows)} transactions, {count} of them open"
    return ResultTable(title, _with_times(pa.Table.from_pylist(rows, _TRANSACTIONS)))


def list_groups(catalog: Catalog) -> ResultTable:
    """The committed offsets of all groups, with the ends of the logs that are here.

    A record that could not be read has a row with its `error`.
    """
    view = VIEWS["group_offsets"]
    contents = read_current(find_internal_topic(catalog, view.topic), view)
    broken = {row["logOffset"]: row for row in contents.rows.to_pylist() if row["error"]}
    read = [row for row in contents.rows.to_pylist() if not row["error"]]
    lags = [("logEndOffset", pa.int64()), ("lag", pa.int64())]
    schema = pa.schema([*view.schema, *(pa.field(*each) for each in lags)])
    schema = pa.schema([field.with_nullable(True) for field in schema])
    rows = [*with_lag(read, catalog), *broken.values()]
    groups = len({row["group"] for row in read})
    title = f"{len(read)} committed offsets of {groups} groups"
    if contents.broken:
        title += f"; {len(contents.broken)} batches could not be read: {contents.broken[0]}"
    return ResultTable(title, _with_times(pa.Table.from_pylist(rows, schema)))


def _with_times(table: pa.Table) -> pa.Table:
    """Milliseconds as times; null where no calendar of ours has such a time."""
    for name in time_columns(table.schema):
        fits = times_fit(table, [name])
        times = pc.if_else(fits, table[name], pa.scalar(None, pa.int64()))
        column = [microseconds(chunk) for chunk in times.chunks]
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.chunked_array(column, pa.timestamp("us", "UTC")))
    return table
