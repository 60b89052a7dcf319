"""Storage in one SQLite file: write-ahead log, and one commit for all writes that wait (group
commit).

A writer thread owns the connection. ``synchronous=NORMAL``: a commit survives the end of the
process at any instant; a power
failure may lose the last commits, never corrupt the file.
"""

import asyncio
import fcntl
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from multiqueue.embedded.server.kinds import GroupPlural
from multiqueue.embedded.server.storage.storage import Saved, Write

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
BATCH = 512
"""Writes per commit: enough to share the cost, few enough that nobody waits for a long commit."""


class StorageInUse(Exception):  # noqa: N818 - says what happened
    """Another server has the same data directory."""


class SqliteStorage:
    """Objects and settings in ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: SimpleQueue[Write | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock_file: IO[str] | None = None

    def open(self) -> Saved:
        """Read the file, or create it."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock()
        self._path.touch(mode=0o600)  # it holds tokens and keys; its companions take the mode over
        with closing(self._connect()) as connection:
            connection.executescript(SCHEMA)
            settings = dict(connection.execute("SELECT name, value FROM settings"))
        revision = int(settings.pop(REVISION, b"0"))
        return Saved(revision=revision, objects=self._objects(), settings=settings)

    def start(
        self, on_durable: Callable[[int], None], on_failure: Callable[[Exception], None]
    ) -> None:
        """Start the writer thread."""
        loop = asyncio.get_running_loop()

        def report_durable(revision: int) -> None:
            loop.call_soon_threadsafe(on_durable, revision)

        def report_failure(error: Exception) -> None:
            loop.call_soon_threadsafe(on_failure, error)

        self._thread = threading.Thread(
            target=self._run, args=(report_durable, report_failure), name="apiserver-storage"
        )
        self._thread.start()

    def append(self, writes: Sequence[Write]) -> None:
        """Hand writes to the writer thread."""
        for write in writes:
            self._queue.put(write)

    def save_setting(self, name: str, value: bytes) -> None:
        """Keep a small value. Blocks for one commit; only used while starting."""
        with closing(self._connect()) as connection, connection:
            connection.execute(SAVE_SETTING, (name, value))

    def close(self) -> None:
        """Write what is queued and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

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

    def _run(
        self, on_durable: Callable[[int], None], on_failure: Callable[[Exception], None]
    ) -> None:
        try:
            with closing(self._connect()) as connection:
                while batch := self._next_batch():
                    self._commit(connection, batch)
                    on_durable(batch[-1].revision)
        except Exception as error:  # noqa: BLE001 - whatever it was, the server must stop promising durability
            on_failure(error)

    def _next_batch(self) -> list[Write]:
        """Wait for a write and take all that wait with it; empty: the storage closes."""
        first = self._queue.get()
        batch: list[Write] = []
        while first is not None:
            batch.append(first)
            if len(batch) == BATCH:
                break
            try:
                first = self._queue.get_nowait()
            except Empty:
                break
        else:
            if batch:
                self._queue.put(None)
        return batch

    @staticmethod
    def _commit(connection: sqlite3.Connection, batch: Sequence[Write]) -> None:
        latest = {(*write.collection, write.namespace, write.name): write.raw for write in batch}
        with connection:
            connection.executemany(DELETE, [key for key, raw in latest.items() if raw is None])
            connection.executemany(
                UPSERT, [(*key, raw) for key, raw in latest.items() if raw is not None]
            )
            connection.execute(SAVE_SETTING, (REVISION, str(batch[-1].revision).encode()))
