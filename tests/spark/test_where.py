"""The option `where` of the source: Spark gets the rows that match, and no others."""

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from where.logs import read, write_logs
from where.predicates import Clause, predicates

pytestmark = pytest.mark.spark

Place = tuple[str, int, int]


def draw_clauses(rows: list[dict[str, Any]], count: int) -> list[Clause]:
    drawn: list[Clause] = []

    @settings(max_examples=count, derandomize=True, database=None, deadline=None)
    @given(predicates(rows))
    def collect(clause: Clause) -> None:
        drawn.append(clause)

    collect()
    return drawn


def compare(spark: SparkSession, path: Path, clauses: list[Clause]) -> None:
    """All predicates in one job: a query for each, with its number."""
    rows = read(path)
    frames = [
        spark.read.format("kafka-log")
        .option("where", clause.text)
        .load(str(path))
        .select("topic", "partition", "offset", lit(number).alias("query"))
        for number, clause in enumerate(clauses)
    ]
    found: list[list[Place]] = [[] for _ in clauses]
    for row in reduce(DataFrame.union, frames).collect():
        found[row["query"]].append((row["topic"], row["partition"], row["offset"]))
    for clause, places in zip(clauses, found, strict=True):
        expected = [
            (row["topic"].decode(), row["partition"], row["offset"])
            for row in rows
            if clause.meaning(row)
        ]
        assert sorted(places) == sorted(expected), clause.text


def test_spark_gets_what_matches(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path)
    compare(spark, tmp_path, draw_clauses(read(tmp_path), 10))


@pytest.mark.soak
def test_spark_gets_what_matches_of_many(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path)
    clauses = draw_clauses(read(tmp_path), 300)
    for start in range(0, len(clauses), 20):
        compare(spark, tmp_path, clauses[start : start + 20])


def test_a_wrong_predicate_is_an_error_before_anything_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_logs(tmp_path)
    reader = spark.read.format("kafka-log")
    with pytest.raises(AnalysisException, match="no column offsett: did you mean offset"):
        reader.option("where", "offsett = 5").load(str(tmp_path))
    with pytest.raises(AnalysisException, match="where chooses records; view=batches has none"):
        reader.options(where="offset = 5", view="batches").load(str(tmp_path))
