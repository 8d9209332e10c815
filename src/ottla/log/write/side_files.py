"""What lies beside the logs of a partition and follows from all its batches, one after another.

Leader epochs, the transactions that were aborted, and the producers at each base: unlike an offset
or time index, no segment knows them by itself.
"""

from ottla.format.names import LEADER_EPOCH_CHECKPOINT, Kind, file_name
from ottla.kernels.producers.state import Completed, Markers
from ottla.kernels.tables import Batches
from ottla.log.files.checkpoints import EpochStart, follow_leader_epochs, write_leader_epochs
from ottla.log.files.producer_snapshot import write_producer_snapshot
from ottla.log.files.transaction_index import write_transaction_index
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import new_staged_name, staged_path
from ottla.rules.producers.producer import (
    Origin,
    ProducerState,
    append_all,
    concat_completed,
    empty_state,
)
from ottla.rules.producers.snapshots import to_snapshot
from ottla.rules.producers.transactions import aborted_transactions
from ottla.storage.paths import join
from ottla.storage.writing import write_file


def stage_file(job: Job, directory: str, name: str, data: bytes) -> StagedFile:
    """Stage a small file of a directory."""
    staged = new_staged_name(name)
    write_file(staged_path(job, staged), data, job.storage)
    return StagedFile(staged, join(directory, name), len(data))


def stage_segment(job: Job, directory: str, base_offset: int, log: bytes) -> list[StagedFile]:
    """Stage a segment so small that its indexes have no entries."""
    empty = dict.fromkeys((Kind.OFFSET_INDEX, Kind.TIME_INDEX), b"")
    return [
        stage_file(job, directory, file_name(base_offset, kind), data)
        for kind, data in ({Kind.LOG: log} | empty).items()
    ]


class SideFiles:
    """Follows the batches of a partition and stages what they make of it; `files` is what was.

    `notes` is what a user should know of it.
    """

    def __init__(self, job: Job, directory: str, producers: ProducerState | None = None) -> None:
        self.job = job
        self.directory = directory
        self.files: list[StagedFile] = []
        self.notes: list[str] = []
        self.epochs: list[EpochStart] = []
        self.producers = producers if producers is not None else empty_state()
        self._completed: list[Completed] = []

    def follow(self, batches: Batches, markers: Markers) -> None:
        """Learn from batches that a log holds already: nothing is refused."""
        completed, _ = append_all(self.producers, batches, markers, Origin.REPLICATION)
        self._completed.append(completed)
        follow_leader_epochs(self.epochs, batches)

    def finish_segment(self, base_offset: int) -> None:
        """Stage the transaction index of a segment that was followed to its end."""
        aborted = aborted_transactions(concat_completed(self._completed))
        self._completed = []
        if aborted.size:
            name = file_name(base_offset, Kind.TRANSACTION_INDEX)
            self.stage(name, write_transaction_index(aborted))

    def stage_snapshot(self, offset: int) -> None:
        """Stage the producers as they are before `offset`."""
        data = write_producer_snapshot(to_snapshot(self.producers))
        self.stage(file_name(offset, Kind.PRODUCER_SNAPSHOT), data)

    def stage_leader_epochs(self) -> None:
        """Stage where leaders began, when all batches were followed."""
        self.stage(LEADER_EPOCH_CHECKPOINT, write_leader_epochs(self.epochs))

    def stage(self, name: str, data: bytes) -> None:
        """Stage a small file of the directory."""
        self.files.append(stage_file(self.job, self.directory, name, data))
