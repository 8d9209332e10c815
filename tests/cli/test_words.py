"""Only the front ends name flags, options and commands; what lies below says what it is about."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from builders import Row, batch
from choosing import choose
from ottla.cli import COMMANDS, main
from ottla.cli.flags import FLAGS
from ottla.errors import DataLossError, OptionError, PublishError, Term, WordedError
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.spark.words import OPTIONS, naming_options

SOURCE = Path(ottla.__file__).parent
FRONT_ENDS = {"cli", "spark", "options", "html", "tables"}  # options are the parsers of Spark's
FLAG_OR_COMMAND = re.compile(r"(?<![\w-])--[a-z]|`ottla |\boption [a-z]+[A-Z]")


def texts(path: Path) -> Iterator[str]:
    """The strings of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    documented = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node not in documented:
            yield node.value


def test_no_layer_below_the_front_ends_names_a_flag_or_a_command() -> None:
    below = [
        path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in FRONT_ENDS
    ]
    assert len(below) > 100
    named = {
        str(path.relative_to(SOURCE)): text
        for path in below
        for text in texts(path)
        if FLAG_OR_COMMAND.search(text)
    }
    assert named == {}


def test_every_term_has_a_name_somewhere() -> None:
    assert set(Term) == {*FLAGS, *OPTIONS}


def test_every_flag_is_one_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    helps = ""
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        helps += capsys.readouterr().out
    for name in FLAGS.values():
        said = re.fullmatch(r"`ottla (\w+)( --help)?`", name)
        assert said[1] in COMMANDS if said else re.search(rf"{name}\b", helps), name


@pytest.mark.parametrize("kind", [OptionError, DataLossError, PublishError])
def test_an_error_says_the_same_in_other_words(kind: type[WordedError]) -> None:
    error = kind("a {b}: ", Term.TOPIC_IDS, " c")
    assert str(error) == "a {b}: topic id c"
    assert str(error.worded(FLAGS)) == "a {b}: --topic-id c"
    with pytest.raises(kind, match=r"^a \{b\}: option topicIds c$"), naming_options():
        raise pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize(
    ("renaming", "message"),
    [
        (Renaming({"u": "v"}, {}), "--rename u=v: no such topic among what is restored"),
        (Renaming({"t": "a/b"}, {}), "--rename t=a/b: 'a/b' is no name for a topic"),
        (Renaming({}, {"u": "x"}), "--topic-id u=x: no such topic in the output"),
        (Renaming({}, {"t": "x"}), "--topic-id t=x: 'x' is no topic id"),
    ],
)
def test_what_can_not_be_renamed_is_named_by_its_flag(
    tmp_path: Path, renaming: Renaming, message: str
) -> None:
    logs = tmp_path / "logs"
    (logs / "t-0").mkdir(parents=True)
    (logs / "t-0" / f"{0:020d}.log").write_bytes(batch([Row(0)]))
    everything = compile_filter((), None, ())
    with pytest.raises(OptionError) as caught:
        plan_restore(choose(logs), str(tmp_path / "out"), everything, renaming)
    assert str(caught.value.worded(FLAGS)) == message


def test_a_snapshot_is_dumped_without_the_flags_that_choose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "00000000000000000000-0000000000.checkpoint"
    path.write_bytes(batch([Row(0)]))
    assert main(["dump", str(path), "--from", "1"]) == 2
    told = "is a snapshot: dump it without --topic, --partition, --from and --to"
    assert told in capsys.readouterr().err
