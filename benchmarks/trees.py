"""Log directories of very many small segments: one partition is written, the others link to it."""

import errno
import os
import shutil
from pathlib import Path

from ottla.batch.encode import encode
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.format.names import PARTITION_METADATA
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import allocate_batches, take_batches
from ottla.log.files.identity import new_topic_id, write_topic_id
from ottla.log.write.index_builder import SegmentConfig
from ottla.log.write.segment_writer import SegmentWriter
from ottla.publish.journal import commit, publish, run_job
from ottla.region import Region, padded

START = 1_760_000_000_000
PER_TOPIC = 100  # partitions
RECORDS = 3  # of a segment


def make_tree(root: Path, partitions: int, segments: int) -> Path:
    """A log directory of so many partitions, each of so many segments with all their files."""
    template = root.with_name(f"{root.name}-template")
    _write_partition(template, segments)
    sources = {path.name: path for path in (template / "template-0").iterdir()}
    for number in range(partitions):
        if number % PER_TOPIC == 0:
            metadata = template / PARTITION_METADATA
            metadata.unlink(missing_ok=True)
            metadata.write_bytes(write_topic_id(new_topic_id()))
            sources[PARTITION_METADATA] = metadata
        folder = root / partition_name(number)
        folder.mkdir(parents=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for name, source in sources.items():
            _link(source, name, descriptor)
        os.close(descriptor)
    shutil.rmtree(template)
    shutil.rmtree(f"{template}.ottla")
    return root


def partition_name(number: int) -> str:
    """The name of a folder.

    >>> partition_name(205)
    'topic-2-5'
    """
    return f"topic-{number // PER_TOPIC}-{number % PER_TOPIC}"


def _link(source: Path, name: str, folder: int) -> None:
    try:
        os.link(source, name, dst_dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EMLINK:  # a file may have 65,000 names on ext4
            raise
        copied = source.with_name(f"{source.name}.copy")
        shutil.copy(source, copied)
        copied.replace(source)
        os.link(source, name, dst_dir_fd=folder)


def _write_partition(root: Path, segments: int) -> None:
    batches = [_batch(number) for number in range(segments)]
    with run_job(str(root), "template") as job:
        config = SegmentConfig(segment_bytes=max(map(len, batches)))
        writer = SegmentWriter(job, "template-0", 0, config)
        for data in batches:
            table, held = allocate_batches(1), padded(data)
            scan(held, 0, len(data), 0, table)
            writer.append(Region(held, len(data), "template", 0), take_batches(table, slice(0, 1)))
        commit(job, writer.close(), [])
        publish(job)


def _batch(number: int) -> bytes:
    first = number * RECORDS
    records = [
        NewRecord(offset, START + offset, f"key {offset}".encode(), b"value")
        for offset in range(first, first + RECORDS)
    ]
    return encode(pack_rows(records), NewBatch(base_offset=first, partition_leader_epoch=0))
