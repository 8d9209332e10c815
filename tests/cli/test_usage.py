"""Words that no flag, command or choice is: what may be meant, in one line, and exit code 2."""

from pathlib import Path

import pytest

from builders import batch
from cli.here import run
from ottla.jobs.demo import make_logs


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("usage") / "kafka-logs"
    make_logs(str(folder))
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param("dmup x", "no command dmup: did you mean dump? `ottla --help`", id="command"),
        pytest.param("frob x", "no command frob; there are dump, inspect, ls,", id="commands"),
        pytest.param("ls --topics a x", "no option --topics: did you mean --topic?", id="option"),
        pytest.param("ls --topc=a x", "no option --topc: did you mean --topic?", id="option-value"),
        pytest.param("--verison", "no option --verison: did you mean --version?", id="first"),
        pytest.param("dump --max x", "did you mean --max-batch-bytes or --max-messages?", id="two"),
        pytest.param("ls --xyz x", "no option --xyz; there are --help, --topic,", id="options"),
        pytest.param(
            "ls --format json x",
            "--format json: did you mean jsonl? Choose text or jsonl; `ottla ls --help`",
            id="value",
        ),
        pytest.param(
            "verify --engine flink x", "--engine flink: choose auto, local or spark", id="choices"
        ),
        pytest.param("convert a b --magic 7", "--magic 7: choose 0, 1 or 2", id="numbers"),
        pytest.param("inspect a b", "nothing takes the word 'b'", id="word"),
        pytest.param("dump x --max-messages 0", "'0' is not a positive number", id="number"),
        pytest.param("ls", "required: PATH; `ottla ls --help` says more", id="missing"),
        pytest.param("ls x --now", "no option --now", id="not-here"),
    ],
)
def test_a_wrong_word_gets_what_may_be_meant(words: str, said: str) -> None:
    ran = run(*words.split())
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("ottla: ")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_a_wrong_word_is_shown_and_not_obeyed() -> None:
    assert "\x1b" not in run("ls", "--\x1b[2J", "x").err


def names(*words: object) -> list[str]:
    """The partitions that `ls` shows, by topic."""
    ran = run("ls", *words, "--format", "jsonl", "--quiet")
    return [part.partition('"')[0] for part in ran.out.split('"topic":"')[1:]]


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        pytest.param(["users,clicks"], {"users", "clicks"}, id="comma"),
        pytest.param(["users, clicks", "orders"], {"users", "clicks", "orders"}, id="repeated"),
        pytest.param(["pay*"], {"payments"}, id="star"),
        pytest.param(["[a-z]*s"], {"users", "clicks", "orders", "payments"}, id="all"),
        pytest.param(["user?", "[oc]*"], {"users", "orders", "clicks"}, id="others"),
        pytest.param(["pay*,users"], {"payments", "users"}, id="mixed"),
    ],
)
def test_topics_are_chosen_by_name_and_by_pattern(
    logs: Path, topics: list[str], found: set[str]
) -> None:
    words = [word for topic in topics for word in ("--topic", topic)]
    assert set(names(logs, *words)) == found


def test_a_name_is_no_beginning(logs: Path) -> None:
    ran = run("ls", logs, "--topic", "user")
    assert (ran.status, "no topic user" in ran.err) == (2, True)


@pytest.mark.parametrize("topic", ["bay*", "orders,bay*", "orders,", ","])
def test_a_pattern_that_matches_nothing_is_refused(logs: Path, topic: str) -> None:
    ran = run("ls", logs, "--topic", topic)
    assert (ran.status, ran.out) == (2, "")
    assert ("no topic bay*" if "bay" in topic else "--topic: a topic has no name") in ran.err


def test_a_pattern_names_no_internal_topic(tmp_path: Path) -> None:
    for topic in ("__consumer_offsets", "orders"):
        (tmp_path / "logs" / f"{topic}-0").mkdir(parents=True)
        (tmp_path / "logs" / f"{topic}-0" / f"{0:020d}.log").write_bytes(batch())
    ran = run("export", tmp_path / "logs", tmp_path / "out", "--topic", "*", "--engine", "local")
    assert ran.status == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["topic=orders"]


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--value-decoder-class=kafka.serializer.LongDecoder", "--encoding shows bytes as utf8"),
        ("--key-decoder-class=kafka.serializer.LongDecoder", "no Java class is loaded"),
        ("--verify-index-only", "`ottla verify` checks indexes"),
        ("--index-sanity-check", "`ottla verify` checks indexes"),
        ("--max-message-size=5", "say --max-batch-bytes"),
        ("--max-bytes=5", "say --max-messages, or --to and an offset"),
        ("--skip-record-metadata", "say --format jsonl"),
    ],
)
def test_words_of_kafka_dump_log_that_mean_nothing_here(logs: Path, flag: str, said: str) -> None:
    ran = run("dump", logs / "users-0", flag)
    assert (ran.status, ran.out) == (2, "")
    assert f"{flag.partition('=')[0]} is for kafka-dump-log: " in ran.err
    assert said in ran.err


def test_words_of_kafka_dump_log_that_are_taken(logs: Path) -> None:
    first, second = (f"{logs}/{name}/{0:020d}.log" for name in ("orders-0", "users-0"))
    plain = run("dump", first, second, "--format", "text")
    words = ["--deep-iteration", "--print-data-log", "--files", f"{first},{second}"]
    decoders = ["--value-decoder-class", "kafka.serializer.StringDecoder", "--key-decoder-class"]
    assert run("dump", *words, *decoders, "--format", "text") == plain
    assert plain.out.count("Dumping ") == 2


def test_nothing_to_dump_is_said() -> None:
    ran = run("dump", "--format", "text")
    assert (ran.status, ran.out) == (2, "")
    assert "what to dump is missing" in ran.err


def test_a_time_has_one_form_in_every_command(logs: Path) -> None:
    words = ["--format", "jsonl", "--topic", "orders", "--quiet"]
    forms = ["@1760000000000", "1760000000000", "@2025-10-09T08:53:20Z", "2025-10-09T08:53:20"]
    transactions = {run("transactions", logs, "--now", form, *words).out for form in forms}
    assert len(transactions) == 1
    words += ["--explain", "--include-active"]
    explained = {run("compact", logs, "--now", form, *words).out for form in forms}
    assert len(explained) == 1
    for command in ("transactions", "compact", "report", "append"):
        assert (
            "'noon' is not a time such as @2025-10-09T08:53:20Z"
            in run(command, "--now", "noon").err
        )


def test_an_explanation_needs_no_out(logs: Path, tmp_path: Path) -> None:
    words = ["--topic", "users", "--explain", "--include-active", "--format", "jsonl"]
    words += ["--now", "@1760000000000"]
    before = sorted(logs.parent.rglob("*"))
    plain = run("compact", logs, *words)
    assert (plain.status, '"topic":"users"' in plain.out) == (0, True)
    assert run("compact", logs, tmp_path / "out", *words).out == plain.out
    assert sorted(logs.parent.rglob("*")) == before
    assert list(tmp_path.iterdir()) == []


def test_an_explanation_is_of_every_path_that_is_there(logs: Path) -> None:
    words = ["--explain", "--include-active", "--format", "jsonl"]
    ran = run("compact", logs / "users-0", logs / "orders-0", *words)
    assert ('"topic":"users"' in ran.out, '"topic":"orders"' in ran.out) == (True, True)


def test_a_compaction_needs_out(logs: Path) -> None:
    assert "required: OUT" in run("compact", logs).err


def test_quiet_leaves_what_is_asked_for(logs: Path, tmp_path: Path) -> None:
    broken = tmp_path / f"{0:020d}.log"
    data = bytearray(batch())
    data[-1] ^= 1
    broken.write_bytes(data)
    loud, quiet = run("inspect", broken), run("inspect", broken, "--quiet")
    assert (loud.status, quiet.status) == (1, 1)
    assert quiet.out == "".join(
        line for line in loud.out.splitlines(keepends=True) if not line.startswith("!")
    )
    words = ["append", broken, "--to", logs / "users-0", "--dry-run", "--format", "text"]
    loud, quiet = run(*words), run(*words, "--quiet")
    assert (loud.status, quiet.status) == (1, 1)
    assert quiet.out == loud.out.splitlines(keepends=True)[-1]
    assert run("finish", tmp_path, "--quiet") == (0, "", "")
