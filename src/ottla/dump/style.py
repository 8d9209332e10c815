"""What differs between the formats of a dump: a style is one row of functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.dump.payloads import Form, ShowHash
from ottla.errors import Row, Violation
from ottla.format.arrays import Bytes, Int64s
from ottla.internal import DecodedRecord
from ottla.kernels.text.render import Plan
from ottla.kernels.text.render_tables import BatchColumns, RecordColumns
from ottla.options.dump import Encoding

Render = Callable[[Bytes, Int64s, BatchColumns, RecordColumns, Plan], bool]


class Problem(NamedTuple):
    """A violation, the record of its batch that it is about, and where reading goes on."""

    violation: Violation
    record_index: int | None = None
    resync: int | None = None


class FileEnd(NamedTuple):
    """Where reading a file ended, and how many lines of each kind it gave.

    `trailing` is None when nobody looked: reading was told to stop early. So is the `size` of what
    comes from a pipe.
    """

    position: int
    size: int | None
    trailing: int | None
    batches: int
    records: int
    errors: int


class EntriesEnd(NamedTuple):
    """The size of a file of entries, how many it has, and how much is wrong with them."""

    size: int
    entries: int
    errors: int


class Style(NamedTuple):
    """How a dump looks: `render` is the kernel for batches and records, these do the rest.

    `forms` has how bytes are shown in each encoding, None for what `render` does by itself;
    `digest` shows none of them. `utf8_keys` says whether header keys must be UTF-8. `say_control`
    ends the line of a control record that can be read, `no_control` that of others.
    """

    render: Render
    forms: Mapping[Encoding, Form | None]
    digest: ShowHash
    utf8_keys: bool
    open_file: Callable[[str], bytes]
    close_line: Callable[[str], bytes]
    say_problem: Callable[[Problem], bytes]
    say_control: Callable[[bytes | None, bytes | None], bytes]
    no_control: bytes
    say_decoded: Callable[[DecodedRecord], bytes]
    say_end: Callable[[str, FileEnd], bytes]
    say_entries: Callable[[str, str, Sequence[Row]], bytes]
    say_entries_end: Callable[[str, EntriesEnd], bytes]
