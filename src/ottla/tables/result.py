"""What a job or a question gives back: a small table in memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.errors import Row, Severity
from ottla.extras import missing_extra
from ottla.tables.show import SHOWN_ROWS, first_rows, html_table, narrow_table

if TYPE_CHECKING:
    import pandas as pd


class ResultTable:
    """Rows with a title; an Arrow stream, as a scan is, and a table in a notebook.

    Of `verify`, `account` says what was read, and `ok` whether no error was found.
    """

    def __init__(self, title: str, table: pa.Table, account: Sequence[Row] = ()) -> None:
        self.title = title
        self.account = list(account)
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._table.schema

    @property
    def ok(self) -> bool:
        """Whether no row is about an error, or of an account: about violations."""
        if "severity" in self._table.column_names:
            return Severity.ERROR not in self._table["severity"].to_pylist()
        if "violations" in self._table.column_names:
            return not any(self._table["violations"].to_pylist())
        return True

    def to_arrow(self) -> pa.Table:
        """The rows."""
        return self._table

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    def to_pandas(self) -> "pd.DataFrame":
        """The rows as a pandas DataFrame."""
        return to_pandas(self._table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        shown = narrow_table(self._table.column_names, first_rows(self._table))
        return f"{self.title}\n{shown}{self._more()}"

    def _repr_html_(self) -> str:
        caption = self.title + self._more()
        return html_table(caption, self._table.column_names, first_rows(self._table))

    def _more(self) -> str:
        rest = len(self) - SHOWN_ROWS
        return f"\nand {rest} more" if rest > 0 else ""


def to_pandas(table: pa.Table) -> "pd.DataFrame":
    """A table as a DataFrame of pandas, if that is here."""
    try:
        import pandas as pd  # noqa: F401
    except ImportError:
        raise missing_extra("pandas", "this needs pandas") from None
    # Beside nulls pandas makes floats of integers, and large ones others than they were.
    has_structs = any(pa.types.is_struct(field.type) for field in table.schema)
    return table.to_pandas(integer_object_nulls=has_structs)
