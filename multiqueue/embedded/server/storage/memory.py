"""Storage in memory only, for tests and short-lived servers."""

from multiqueue.embedded.server.storage.storage import Saved, Write


class MemoryStorage:
    """Every write is kept by the store itself, for as long as the process lives."""

    def open(self) -> Saved:
        """Nothing was kept."""
        return Saved()

    def write(self, write: Write) -> None:
        """Nothing to do: the store holds the objects itself."""

    def save_setting(self, name: str, value: bytes) -> None:
        """Nothing to do: the server holds the value itself."""

    def close(self) -> None:
        """Nothing is open."""
