"""Storage in one SQLite file with a write-ahead log, and a commit for each write.

``synchronous=NORMAL``: a commit survives the end of the process at any instant; a power failure may
lose the last commits, never corrupt the file. So a commit waits for no disk, and takes less time
than a thread would to be told of it.
"""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from multiqueue.embedded.server.kinds import GroupPlural
from multiqueue.embedded.server.storage.storage import Saved, StorageFailed, Write

SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    api_group TEXT, plural TEXT, namespace TEXT, name TEXT, body BLOB NOT NULL,
    PRIMARY KEY (api_group, plural, namespace, name)
);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""
UPSERT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
DELETE = "DELETE FROM objects WHERE api_group = ? AND plural = ? AND namespace = ? AND name = ?"
SAVE_SETTING = "INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)"
REVISION = "revision"


class StorageInUse(Exception):  # noqa: N818 - says what happened
    """Another server has the same data directory."""


class SqliteStorage:
    """Objects and settings in ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._lock_file: IO[str] | None = None

    def open(self) -> Saved:
        """Read the file, or create it."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock()
        self._path.touch(mode=0o600)  # it holds tokens and keys; its companions take the mode over
        connection = self._connection = self._connect()
        connection.executescript(SCHEMA)
        settings = dict(connection.execute("SELECT name, value FROM settings"))
        revision = int(settings.pop(REVISION, b"0"))
        return Saved(revision=revision, objects=self._objects(), settings=settings)

    def write(self, write: Write) -> None:
        """Commit a change.

        Raises:
            StorageFailed: SQLite could not, for example because the disk is full.
        """
        key = (*write.collection, write.namespace, write.name)
        try:
            with self._opened as connection:
                if write.raw is None:
                    connection.execute(DELETE, key)
                else:
                    connection.execute(UPSERT, (*key, write.raw))
                connection.execute(SAVE_SETTING, (REVISION, str(write.revision).encode()))
        except sqlite3.Error as error:
            raise StorageFailed(str(error)) from error

    def save_setting(self, name: str, value: bytes) -> None:
        """Keep a small value."""
        with self._opened as connection:
            connection.execute(SAVE_SETTING, (name, value))

    def close(self) -> None:
        """Close the file, and let others use it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    @property
    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None, "open the storage first"
        return self._connection

    def _lock(self) -> None:
        """Make sure that one server at a time uses the file; the system unlocks when we end."""
        lock = self._path.with_suffix(".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise StorageInUse(
                f"{self._path} is in use by another server; stop it first"
            ) from error
        self._lock_file = lock

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=10)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _objects(self) -> Iterator[tuple[GroupPlural, bytes]]:
        with closing(self._connect()) as connection:
            for group, plural, body in connection.execute(
                "SELECT api_group, plural, body FROM objects"
            ):
                yield (group, plural), body
