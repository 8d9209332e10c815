"""`python -m benchmarks [NAME ...] [--quick] [--only TEXT] [--publish]`."""

import argparse
import compileall
from pathlib import Path

from benchmarks import (
    bench_avro,
    bench_clone,
    bench_compact,
    bench_decode,
    bench_encode,
    bench_internal,
    bench_jobs,
    bench_kafka,
    bench_lake,
    bench_latency,
    bench_log,
    bench_rules,
    bench_scale,
    bench_scan,
    bench_share,
    bench_spark,
    bench_startup,
    bench_tables,
    bench_threads,
    bench_tiered,
    bench_values,
    bench_where,
)
from benchmarks.corpus import FULL, QUICK
from benchmarks.table import markdown, publish
from ottla import __file__ as ottla

PER_FILE = {"decode": bench_decode, "encode": bench_encode, "scan": bench_scan}
WHOLE = {
    "log": bench_log,
    "rules": bench_rules,
    "internal": bench_internal,
    "spark": bench_spark,
    "share": bench_share,
    "threads": bench_threads,
    "jobs": bench_jobs,
    "compact": bench_compact,
    "kafka": bench_kafka,
    "startup": bench_startup,
    "tables": bench_tables,
    "where": bench_where,
    "tiered": bench_tiered,
    "clone": bench_clone,
    "avro": bench_avro,
    "values": bench_values,
    "lake": bench_lake,
    "latency": bench_latency,
}
BY_HAND = {"scale": bench_scale}  # makes millions of files
BENCHMARKS = PER_FILE | WHOLE


def main() -> None:
    """Run the benchmarks that were named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS | BY_HAND))
    parser.add_argument("--quick", action="store_true", help="few and small files")
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose label has TEXT")
    parser.add_argument("--publish", action="store_true", help="keep the tables in the README")
    arguments = parser.parse_args()
    # As `pip install` does: with PYTHONDONTWRITEBYTECODE every process compiles a checkout anew.
    compileall.compile_dir(Path(ottla).parent, quiet=1)
    plan = QUICK if arguments.quick else FULL
    cases = [case for case in plan.cases if arguments.only in str(case)]
    for name in arguments.names or BENCHMARKS:
        if name not in BENCHMARKS | BY_HAND:
            parser.error(f"unknown benchmark {name}: one of {', '.join(BENCHMARKS | BY_HAND)}")
        benchmark = (BENCHMARKS | BY_HAND)[name]
        rows = []
        measured = (
            (benchmark.row(case, plan) for case in cases)
            if name in PER_FILE
            else benchmark.rows(plan)
        )
        for row in measured:
            rows.append(row)
            print("  ".join(row), flush=True)
        text = markdown(benchmark.HEADING, rows)
        print(f"\n{name}\n\n{text}\n")
        if arguments.publish:
            publish(name, text)


if __name__ == "__main__":
    main()
