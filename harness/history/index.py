"""The SQLite file of the index: opened, checked, and moved aside where it is broken."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock

from harness.errors import ConfigError, SetupFailure
from harness.history.schema import SCHEMA, TABLES

BUSY_S = 30.0
"""How long another command's transaction is waited for."""


class Index:
    """An open index. What it lost is in `moved`, for the caller to say and to import again."""

    def __init__(self, connection: sqlite3.Connection, moved: Path | None) -> None:
        self.sql = connection
        self.moved = moved
        """Where a broken or an older file was moved to; None where nothing was."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing."""
        self.sql.execute("BEGIN IMMEDIATE")
        try:
            yield self.sql
        except BaseException:
            self.sql.execute("ROLLBACK")
            raise
        self.sql.execute("COMMIT")

    def insert(self, table: str, row: Mapping[str, object]) -> int:
        """Insert a row and return its id."""
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        found = self.sql.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))  # noqa: S608  # names of ours
        return int(found.lastrowid or 0)


@contextlib.contextmanager
def open_index(file: Path) -> Iterator[Index]:
    """The index at `file`, made where there is none.

    Raises:
        ConfigError: a newer harness made it.
        SetupFailure: the file cannot be opened or written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock"):  # of two commands only one moves a broken file aside
            connection, moved = _opened(file)
    except (OSError, sqlite3.OperationalError) as e:
        raise SetupFailure(
            f"{file}: the index of sessions cannot be opened ({e}); name another place with QUALIFY_HISTORY, "
            "or run with --no-history"
        ) from None
    with contextlib.closing(connection):
        yield Index(connection, moved)


def _opened(file: Path) -> tuple[sqlite3.Connection, Path | None]:
    try:
        connection = _connected(file)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        moved = _aside(file)
        return _connected(file), moved
    version = _version(connection)
    if version > SCHEMA:
        connection.close()
        raise ConfigError(
            f"{file}: schema {version} is newer than this harness knows ({SCHEMA}); update the harness, name another "
            "place with QUALIFY_HISTORY, or run with --no-history"
        )
    if version < SCHEMA:
        connection.close()
        moved = _aside(file)
        return _connected(file), moved
    return connection, None


def _connected(file: Path) -> sqlite3.Connection:
    """A connection to a file that holds what it should, or to a new one.

    Raises:
        sqlite3.DatabaseError: it is broken.
    """
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_mode = WAL")
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("quick_check")
        empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if empty:
            connection.executescript(f"BEGIN;{TABLES}PRAGMA user_version = {SCHEMA};COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _aside(file: Path) -> Path:
    """Move a file that is of no use out of the way, and what SQLite keeps beside it."""
    moved = file.with_name(f"{file.name}.aside-{time.time_ns()}")
    for suffix in ("", "-wal", "-shm"):
        part = file.with_name(f"{file.name}{suffix}")
        if part.exists():
            part.rename(moved.with_name(f"{moved.name}{suffix}"))
    return moved
