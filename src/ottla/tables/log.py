"""`ottla.open`: the logs of a path, and what can be asked of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from os import fspath
from typing import Final

import pyarrow.compute as pc

from ottla.batch.convert import DEFAULT_BATCH_BYTES, Conversion, Loss
from ottla.catalog.catalog import Catalog, list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import live_logs, refuse_replicas
from ottla.catalog.missing import no_logs
from ottla.dump.listing import list_rows
from ottla.dump.transactions import TransactionQuery
from ottla.dump.values import time_text
from ottla.engines import EngineKind
from ottla.errors import Row
from ottla.format.attributes import Codec, codec_of
from ottla.format.names import UNNAMED, DirectoryState, natural_order
from ottla.format.producers import MAX_TRANSACTION_TIMEOUT_MS
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.export.plan import plan_export
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.jobs.schemas.resolve import resolve_payloads
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import Partition
from ottla.log.read.mode import Isolation, Mode
from ottla.options.choice import choose_topics
from ottla.options.export import ExportOptions, FileFormat, PartitionBy, TableColumns
from ottla.options.offsets import LimitPair
from ottla.options.read import ReadOptions, View
from ottla.options.texts import counted, format_bytes
from ottla.rules.cleaner.cleanable import CleanerConfig
from ottla.schemas.wires import WireFormat
from ottla.storage.paths import is_remote
from ottla.tables.arguments import (
    Path,
    Topics,
    When,
    engine_of,
    limit_of,
    milliseconds_of,
    one_of,
    paths_of,
    predicate_of,
    storage_of,
    topics_of,
    value_as_of,
    where_of,
)
from ottla.tables.jobs import (
    list_groups,
    list_transactions,
    run_compaction,
    run_output,
    verify_logs,
)
from ottla.tables.listing import PartitionView, TopicView
from ottla.tables.result import ResultTable
from ottla.tables.scan import Scan
from ottla.tables.show import html_table, text_table
from ottla.tables.words import naming_arguments

_TITLES: Final = ("TOPIC", "PARTITIONS", "RECORDS", "SIZE", "TIMES (UTC)")
_WALKED: Final = 4 << 30  # bytes of logs whose headers a repr walks
_WALKED_REMOTE: Final = 64 << 20


def open(  # noqa: A001  as pyiceberg, deltalake and others have it
    path: Path | Sequence[Path],
    *,
    endpoint: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    anonymous: bool = False,
    follow_links: bool = False,
    **unknown: object,
) -> "KafkaLog":
    """The logs of a path: a log directory of a broker, a copy of one, a partition, a segment.

    Several paths are a list. A path may be in an object store (`s3://bucket/kafka-logs`);
    `endpoint`, `region`, `profile` and `anonymous` say how to get there, and secrets come from the
    environment. Files are listed now, and what is written after that is not seen.

    >>> log = ottla.open("kafka-logs")
    >>> log.scan("orders", columns=["offset", "value"]).head(2).to_pylist()
    [{'offset': 0, 'value': b'tea'}, {'offset': 1, 'value': b'ink'}]
    """
    given = {
        "endpoint": endpoint,
        "region": region,
        "profile": profile,
        "anonymous": anonymous,
        "follow_links": follow_links,
    }
    with naming_arguments():
        paths, storage = paths_of(path), storage_of(given | unknown)
        catalog = list_catalog(paths, storage)
        if not catalog.partitions:
            raise no_logs(paths, storage)
    return KafkaLog(catalog)


class KafkaLog:
    """Logs of Kafka as they were when they were opened; `ottla.open` makes one."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def scan(
        self,
        topic: Topics = None,
        *,
        partitions: Sequence[int] = (),
        start: When | Mapping[int, When] | None = None,
        end: When | Mapping[int, When] | None = None,
        columns: Sequence[str] | None = None,
        where: "str | pc.Expression | None" = None,
        isolation: str = Isolation.READ_UNCOMMITTED,
        key_as: str = "binary",
        value_as: str = "binary",
        schemas: Path | None = None,
        wire: str = WireFormat.AUTO,
        raw: bool = False,
        mode: str = Mode.FAILFAST,
    ) -> Scan:
        """Records as a table that is read when it is asked for, as often as it is asked for.

        `topic` is a name, a pattern such as `pay*`, or several. `start` and `end` (exclusive) are
        offsets, or times: a datetime, or a text such as 2025-10-09T08:00Z; or one of these for
        each partition. `columns` leaves the others undecoded. `where` is a text over the columns,
        such as "key = 'anna' and offset < 5000", whose bounds on offsets and times leave segments
        and batches unread (docs/where.md), or an expression of PyArrow. Records of aborted and of
        open transactions are among the rows, unless `isolation` is read_committed.

        `value_as` and `key_as` are binary, utf8 or json: what is no such is null, and its bytes
        are in `valueRaw` or `keyRaw`. They are also avro, protobuf, jsonschema or registry: typed
        columns of one topic, by the schemas in its cluster's `_schemas`, or in `schemas`: another
        log directory, or a folder of files; `wire` says how bytes name them (docs/schemas.md).
        These are read now, and a sample of the topic.

        `raw` keeps Kafka's milliseconds, which need not be times. `mode` says what a broken batch
        means: FAILFAST raises CorruptLogError, DROPMALFORMED leaves it out, PERMISSIVE gives a row
        for it.
        """
        with naming_arguments():
            topics = topics_of(topic)
            options = ReadOptions(
                self._catalog.paths,
                choose_topics(topics, partitions),
                starting=limit_of(start, topics),
                ending=limit_of(end, topics),
                isolation=one_of(Isolation, isolation, "isolation"),
                mode=one_of(Mode, mode, "mode"),
                where=where_of(where),
                storage=self._catalog.storage,
                key_as=value_as_of(key_as, "key_as"),
                value_as=value_as_of(value_as, "value_as"),
                schemas=None if schemas is None else fspath(schemas),
                wire=one_of(WireFormat, wire, "wire"),
                raw=raw,
                strict=False,
            )
            return Scan(self._catalog, resolve_payloads(options, self._catalog), columns)

    def batches(self, topic: Topics = None, *, columns: Sequence[str] | None = None) -> Scan:
        """A row for each batch, from its fixed front alone: no record is opened."""
        return self._view(View.BATCHES, topic, columns)

    def violations(self, topic: Topics = None, *, columns: Sequence[str] | None = None) -> Scan:
        """What a scan leaves out, or stops at: a row for each broken batch or record.

        `verify` checks more: indexes, side files, and how batches follow each other.
        """
        return self._view(View.VIOLATIONS, topic, columns)

    def _view(self, view: View, topic: Topics, columns: Sequence[str] | None) -> Scan:
        with naming_arguments():
            options = ReadOptions(
                self._catalog.paths,
                choose_topics(topics_of(topic)),
                view=view,
                mode=Mode.DROPMALFORMED,
                storage=self._catalog.storage,
                strict=False,
            )
            return Scan(self._catalog, options, columns)

    @property
    def paths(self) -> tuple[str, ...]:
        """What was opened."""
        return self._catalog.paths

    @cached_property
    def topics(self) -> Mapping[str, TopicView]:
        """The topics by their names, internal ones too, and their partitions by their numbers.

        >>> log.topics["orders"].partitions[0].offsets
        range(0, 3)
        """
        with naming_arguments():
            logs = [log for log in live_logs(self._catalog) if log.name != UNNAMED]
            refuse_replicas(logs)
        found: dict[str, dict[int, PartitionView]] = {}
        for log in sorted(logs, key=lambda log: natural_order(log.name.topic, log.name.partition)):
            view = PartitionView(log, self._catalog.storage)
            found.setdefault(log.name.topic, {})[log.name.partition] = view
        return {name: TopicView(name, partitions) for name, partitions in found.items()}

    def verify(
        self,
        topic: Topics = None,
        *,
        partitions: Sequence[int] = (),
        quick: bool = False,
        engine: str = EngineKind.LOCAL,
        master: str | None = None,
    ) -> ResultTable:
        """Check every batch, record, index and side file: a row for each violation.

        `quick` looks at headers and CRCs only. `ok` of the result says whether there is no error.

        >>> log.verify().ok
        True
        """
        with naming_arguments():
            chosen = self._chosen(topic, partitions)
            options = VerifyOptions(quick=quick, storage=self._catalog.storage)
            return verify_logs(chosen, options, engine_of(engine, master))

    def transactions(
        self,
        topic: Topics = None,
        *,
        partitions: Sequence[int] = (),
        now: datetime | None = None,
        timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> ResultTable:
        """A row for each transaction: open, committed, aborted or empty.

        An open one hangs if its producer was silent for longer than `timeout_ms`, at `now`.
        """
        with naming_arguments():
            time = datetime.now(UTC) if now is None else now
            query = TransactionQuery(milliseconds_of(time), timeout_ms, with_completed=True)
            return list_transactions(self._chosen(topic, partitions), query)

    def groups(self) -> ResultTable:
        """The offsets that consumer groups committed, and how far behind the logs here they are."""
        with naming_arguments():
            return list_groups(self._catalog)

    def salvage(
        self,
        out: Path,
        topic: Topics = None,
        *,
        partitions: Sequence[int] = (),
        engine: str = EngineKind.LOCAL,
        master: str | None = None,
    ) -> ResultTable:
        """Copy what is intact of damaged logs into `out`, and account for the rest."""
        with naming_arguments():
            target = fspath(out)
            chosen, runs = self._chosen(topic, partitions), engine_of(engine, master)
            return run_output(chosen, target, lambda logs: plan_salvage_job(logs, target), runs)

    def convert(
        self,
        out: Path,
        topic: Topics = None,
        *,
        partitions: Sequence[int] = (),
        start: When | None = None,
        end: When | None = None,
        magic: int | None = None,
        codec: str | Codec | None = None,
        level: int | None = None,
        batch_bytes: int | None = None,
        allow_loss: Sequence[str] = (),
        engine: str = EngineKind.LOCAL,
        master: str | None = None,
    ) -> ResultTable:
        """Write logs in another magic, codec or batch size into `out`; offsets stay."""
        with naming_arguments():
            target = fspath(out)
            conversion = Conversion(
                magic=magic,
                codec=None if codec is None else codec_of(codec),
                level=level,
                allowed=frozenset(one_of(Loss, each, "allow_loss") for each in allow_loss),
                batch_bytes=batch_bytes or DEFAULT_BATCH_BYTES,
            )
            chosen, runs = self._chosen(topic, partitions, start, end), engine_of(engine, master)
            rebatches = batch_bytes is not None
            return run_output(
                chosen,
                target,
                lambda logs: plan_convert(logs, target, conversion, {}, rebatches=rebatches),
                runs,
            )

    def compact(
        self,
        out: Path,
        topic: Topics = None,
        *,
        partitions: Sequence[int] = (),
        include_active: bool = False,
        drop_unkeyed: bool = False,
        delete_retention_ms: int = CleanerConfig().delete_retention_ms,
        now: datetime | None = None,
        engine: str = EngineKind.LOCAL,
        master: str | None = None,
    ) -> ResultTable:
        """Write what Kafka's cleaner would leave of logs into `out`.

        The last segment is left alone, as a broker does that still writes to it, unless
        `include_active`. Records without keys are an error, unless `drop_unkeyed`.
        """
        with naming_arguments():
            target = fspath(out)
            options = CompactOptions(
                config=CleanerConfig(0.0, delete_retention_ms=delete_retention_ms),
                includes_active=include_active,
                drops_unkeyed=drop_unkeyed,
            )
            time = None if now is None else milliseconds_of(now)
            return run_compaction(
                self._chosen(topic, partitions),
                target,
                lambda logs: plan_compaction(logs, target, options, now=time),
                engine_of(engine, master),
            )

    def restore(
        self,
        out: Path,
        topic: Topics = None,
        *,
        partitions: Sequence[int] = (),
        start: When | None = None,
        end: When | None = None,
        keys: Sequence[str] = (),
        key_pattern: str | None = None,
        headers: Sequence[str] = (),
        where: str | None = None,
        rename: Mapping[str, str] | None = None,
        topic_ids: Mapping[str, str] | None = None,
        engine: str = EngineKind.LOCAL,
        master: str | None = None,
    ) -> ResultTable:
        """Write a copy that a broker can mount, of some records, at the offsets they had."""
        with naming_arguments():
            target = fspath(out)
            wanted = compile_filter(tuple(keys), key_pattern, tuple(headers))
            wanted = replace(wanted, where=predicate_of(where))
            renaming = Renaming(dict(rename or {}), dict(topic_ids or {}))
            return run_output(
                self._chosen(topic, partitions, start, end),
                target,
                lambda logs: plan_restore(logs, target, wanted, renaming),
                engine_of(engine, master),
            )

    def export(
        self,
        out: Path,
        topic: Topics = None,
        *,
        partitions: Sequence[int] = (),
        start: When | None = None,
        end: When | None = None,
        format: str = FileFormat.PARQUET,  # noqa: A002  as the flag is called
        value_as: str = "binary",
        key_as: str = "binary",
        schemas: Path | None = None,
        wire: str = WireFormat.AUTO,
        each: bool = False,
        isolation: str = Isolation.READ_UNCOMMITTED,
        mode: str = Mode.FAILFAST,
        where: str | None = None,
        batch_columns: bool = False,
        level: int = 1,
        columns: str = TableColumns.SPARK,
        partition_by: str = PartitionBy.PARTITION,
        catalog: str | None = None,
        recreated: bool = False,
        engine: str = EngineKind.LOCAL,
        master: str | None = None,
    ) -> ResultTable:
        """Write records as Parquet or JSON lines into `out`; what is there already is left out.

        `value_as`, `key_as`, `schemas` and `wire` are those of a scan, topic by topic; `each` type
        of records has a table of its own then.

        With the `format` iceberg or delta, `out` is a table, which says itself what it has: each
        record is in it once (docs/lake.md). `columns` are spark or kafka, and `partition_by` is
        partition or day(timestamp). With `catalog`, one of pyiceberg's, `out` is a name in it.
        `recreated` lets a topic in that has another id than before.
        """
        with naming_arguments():
            target = fspath(out)
            options = ExportOptions(
                format=one_of(FileFormat, format, "format"),
                value_as=value_as_of(value_as, "value_as"),
                key_as=value_as_of(key_as, "key_as"),
                schemas=None if schemas is None else fspath(schemas),
                wire=one_of(WireFormat, wire, "wire"),
                each=each,
                isolation=one_of(Isolation, isolation, "isolation"),
                mode=one_of(Mode, mode, "mode"),
                batch_columns=batch_columns,
                level=level,
                where=predicate_of(where),
                columns=one_of(TableColumns, columns, "columns"),
                partition_by=one_of(PartitionBy, partition_by, "partition_by"),
                catalog=catalog,
                recreated=recreated,
            )
            return run_output(
                self._chosen(topic, partitions, start, end),
                target if catalog is None else None,
                lambda logs: plan_export(logs, target, options),
                engine_of(engine, master),
            )

    def _chosen(
        self,
        topic: Topics,
        partitions: Sequence[int],
        start: When | None = None,
        end: When | None = None,
    ) -> ChosenLogs:
        topics = topics_of(topic)
        limits = LimitPair(limit_of(start, topics), limit_of(end, topics))
        return ChosenLogs(self._catalog, choose_topics(topics, partitions), limits)

    def __repr__(self) -> str:
        return f"{self._title()}\n{text_table(_TITLES, self._rows())}"

    def _repr_html_(self) -> str:
        return html_table(self._title(), _TITLES, self._rows())

    def _title(self) -> str:
        found = self._catalog.partitions
        title = f"{', '.join(self.paths)}: {counted(len(found), 'partition')}"
        title += f", {format_bytes(sum(map(_size_of, found)))}"
        problems = sum(len(row["problems"]) for row in self._listed.values())
        return f"{title}, {counted(problems, 'problem')} in headers" if problems else title

    def _rows(self) -> list[list[object]]:
        """A row for each topic; a directory that is no live partition has one of its own."""
        groups: dict[str, list[Partition]] = {}
        for each in self._catalog.partitions:
            is_live = each.name != UNNAMED and each.state is DirectoryState.LIVE
            groups.setdefault(str(each.name.topic) if is_live else each.title, []).append(each)
        return [self._row(name, partitions) for name, partitions in groups.items()]

    def _row(self, name: str, partitions: Sequence[Partition]) -> list[object]:
        told = [self._listed[each.path] for each in partitions if each.path in self._listed]
        size = format_bytes(sum(map(_size_of, partitions)))
        counts = [row["records"] for row in told]
        records = "" if not counts or None in counts else f"{sum(counts):,}"
        first = [row["firstTimestamp"] for row in told if row["firstTimestamp"] is not None]
        last = [row["lastTimestamp"] for row in told if row["lastTimestamp"] is not None]
        times = _span(min(first), max(last)) if first and last else ""
        return [name, len(partitions), records, size, times]

    @cached_property
    def _listed(self) -> Mapping[str, Row]:
        """What headers say, by paths; of much data, or of remote data, nobody waits for it."""
        limit = _WALKED_REMOTE if any(map(is_remote, self.paths)) else _WALKED
        if sum(map(_size_of, self._catalog.partitions)) > limit:
            return {}
        rows = list_rows(ChosenLogs(self._catalog), [], with_segments=False)
        return {row["path"]: row for row in rows}


def _size_of(partition: Partition) -> int:
    return sum(segment.log.size for segment in partition.segments)


def _span(first: int, last: int) -> str:
    """Two times in UTC on few columns.

    >>> _span(1759996800000, 1760000000000), _span(0, 1760000000000)
    ('2025-10-09 08:00 to 08:53', '1970-01-01 to 2025-10-09')
    """
    begin, stop = (time_text(time) or "" for time in (first, last))
    if begin[:10] == stop[:10]:
        return f"{begin[:10]} {begin[11:16]} to {stop[11:16]}"
    return f"{begin[:10]} to {stop[:10]}"
