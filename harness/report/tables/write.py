"""Write the tables: the same evidence gives the same bytes, whatever the day and the version of pandas."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.evidence.bundle import write_atomically
from harness.judge.case import Case
from harness.records import Verdict
from harness.report.tables import TABLES
from harness.report.tables.columns import Kind, Table

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "tables"
EXPLAINED = "README.md"

HEAD = """# Tables

Written by `qualify run` and `qualify report` from the bundle's evidence and verdict. Each table is a `.parquet`, most
are a `.csv` too. What was not obtained is missing (empty in a CSV, NA or NaN in pandas) and never 0. Times count from
the start of the launch's process, on the monotonic clock. `pandas.read_parquet` gives every column the type that stands
here; of a CSV, pandas guesses. In a CSV, a text that a spreadsheet would run as a formula has an apostrophe before it.
"""

_FORMULA = re.compile(r"^(?=[=@\t\r]|[+-][A-Za-z(=@])")
"""Strangers' text stands in these tables, and people open a CSV with a spreadsheet."""


def write_tables(folder: Path, case: Case, verdict: Verdict) -> None:
    """Write every table, and what its columns are.

    Args:
        folder: Of the report.
        case: The evidence.
        verdict: What the judge made of it.
    """
    for table in TABLES:
        found = frame(table, case, verdict)
        write_atomically(folder / FOLDER / f"{table.name}.parquet", parquet_bytes(table, found))
        if table.csv:
            write_atomically(folder / FOLDER / f"{table.name}.csv", csv_bytes(found))
    write_atomically(folder / FOLDER / EXPLAINED, explained().encode())


def frame(table: Table, case: Case, verdict: Verdict) -> pd.DataFrame:
    """A table as pandas has it, every column of its type, missing values missing."""
    import pandas as pd  # noqa: PLC0415  # heavy

    sources = list(table.sources(case, verdict))
    columns = {
        c.name: pd.Series([_plain(c.value(source)) for source in sources], dtype=c.kind.dtype) for c in table.columns
    }
    return pd.DataFrame(columns)


def csv_bytes(found: pd.DataFrame) -> bytes:
    """A table as CSV (RFC 4180, but lines end with a line feed), in UTF-8, without formulas."""
    texts = [name for name, kind in found.dtypes.items() if str(kind) == Kind.TEXT.dtype]
    found = found.assign(**{str(name): found[name].str.replace(_FORMULA, "'", regex=True) for name in texts})
    return found.to_csv(index=False, lineterminator="\n").encode()


def parquet_bytes(table: Table, found: pd.DataFrame) -> bytes:
    """A table as parquet, with as much about pandas in it as pandas needs to give the types back."""
    import pyarrow as pa  # noqa: PLC0415  # heavy
    import pyarrow.parquet as pq  # noqa: PLC0415

    types = {Kind.TEXT: pa.string(), Kind.INTEGER: pa.int64(), Kind.NUMBER: pa.float64(), Kind.FLAG: pa.bool_()}
    schema = pa.schema([(c.name, types[c.kind]) for c in table.columns], metadata=_for_pandas(table))
    sink = io.BytesIO()
    pq.write_table(
        pa.Table.from_pandas(found, schema=schema, preserve_index=False).replace_schema_metadata(schema.metadata),
        sink,
        compression="zstd",
    )
    return sink.getvalue()


def explained(tables: tuple[Table, ...] = TABLES) -> str:
    """Every table and column, in Markdown."""
    parts = [HEAD]
    for table in tables:
        files = f"`{table.name}.parquet`" + (f", `{table.name}.csv`" if table.csv else "")
        parts.append(f"\n## {table.name}\n\n{table.about} Files: {files}.\n\n| column | type | unit | what it is |\n")
        parts.append("|:--|:--|:--|:--|\n")
        parts += [f"| `{c.name}` | {c.kind} | {c.unit} | {c.about} |\n" for c in table.columns]
    return "".join(parts)


def _plain(value: object) -> object:
    """Members of an enumeration as their text; a text that says nothing is missing, as a CSV has it."""
    return (str(value) or None) if isinstance(value, str) else value


def _for_pandas(table: Table) -> Mapping[str, str]:
    """What pyarrow writes for pandas, without the versions of both."""
    arrow = {Kind.TEXT: "unicode", Kind.INTEGER: "int64", Kind.NUMBER: "float64", Kind.FLAG: "bool"}
    columns = [
        {
            "name": c.name,
            "field_name": c.name,
            "pandas_type": arrow[c.kind],
            "numpy_type": c.kind.dtype,
            "metadata": None,
        }
        for c in table.columns
    ]
    return {"pandas": json.dumps({"index_columns": [], "column_indexes": [], "columns": columns})}
