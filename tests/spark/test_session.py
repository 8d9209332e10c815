"""Where commands run: what is asked for, what spark-submit set up, or this machine."""

import pytest

from ottla.errors import OptionError
from ottla.spark.session import choose_master, start_session


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("MASTER", raising=False)


def test_a_command_runs_on_this_machine_unless_told() -> None:
    assert choose_master(None) == "local[*]"


def test_the_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER", "spark://one:7077")
    assert choose_master(None) == "spark://one:7077"
    assert choose_master("yarn") == "yarn"


def test_spark_submit_has_chosen_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "12345")
    assert choose_master(None) is None


def test_a_master_of_no_kind_is_refused_before_spark_starts() -> None:
    with pytest.raises(OptionError, match="'cluster:7077' is no Spark master"):
        start_session("test", "cluster:7077")
