"""A job in a process of its own, which says how much memory it took: `peak.py JOB LOGS OUT`."""

import json
import resource
import sys
from collections.abc import Callable

from choosing import choose
from jobs.compacting import compact_plainly
from jobs.plain import run_plainly
from ottla.batch.convert import Conversion, Loss
from ottla.catalog.chosen import ChosenLogs
from ottla.format.attributes import Codec
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.report.survey import plan_survey, read_surveys, survey_part
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.publish.journal import run_job
from ottla.rules.cleaner.cleanable import CleanerConfig
from ottla.spark.daemon import load_kernels

SPLIT = 1 << 30


def compact(selection: ChosenLogs, out: str) -> int:
    options = CompactOptions(config=CleanerConfig(0.0), includes_active=True)
    (row,) = compact_plainly(plan_compaction(selection, out, options, now=10**12))
    return int(row["readRecords"])


def convert_with(conversion: Conversion) -> Callable[[ChosenLogs, str], int]:
    """Only the tasks that write logs: side files come from mapped ones, whose pages count too."""

    def convert(selection: ChosenLogs, out: str) -> int:
        rebatches = conversion == REBATCHED
        plan = plan_convert(selection, out, conversion, {}, rebatches=rebatches)
        with run_job(out, "convert") as job:
            finished = [plan.stage(job, part) for part in plan.parts.values()]
        return sum(part.account["readRecords"] for part in finished)

    return convert


def restore(selection: ChosenLogs, out: str) -> int:
    wanted = compile_filter(("key 3",), None, ())
    (row,) = run_plainly(plan_restore(selection, out, wanted, Renaming({}, {})))
    return int(row["readRecords"])


def survey(selection: ChosenLogs, out: str) -> int:
    logs = selection.logs()
    parts = plan_survey(logs, SPLIT, selection.storage)
    rows = [row for part in parts for batch in survey_part(part) for row in batch.to_pylist()]
    return sum(each.records for log in read_surveys(rows, len(logs)) for each in log.values())


REBATCHED = Conversion(codec=Codec.LZ4, batch_bytes=3 << 20)
OLDER = Conversion(magic=1, codec=Codec.LZ4, allowed=frozenset(Loss))
JOBS = {
    "compact": compact,
    "uncompress": convert_with(Conversion(codec=Codec.NONE)),
    "rebatch": convert_with(REBATCHED),
    "older": convert_with(OLDER),
    "restore": restore,
    "survey": survey,
}


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(name: str, logs: str, out: str) -> None:
    load_kernels()
    idle = peak()
    records = JOBS[name](choose(logs), out)
    print(json.dumps({"grown": peak() - idle, "records": records}))


if __name__ == "__main__":
    main(*sys.argv[1:])
