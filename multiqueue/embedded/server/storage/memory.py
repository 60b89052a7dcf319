"""Storage in memory only, for tests and short-lived servers."""

from collections.abc import Callable, Sequence

from multiqueue.embedded.server.storage.storage import Saved, Write


class MemoryStorage:
    """Every write is durable at once, for as long as the process lives."""

    def __init__(self) -> None:
        self._on_durable: Callable[[int], None] | None = None

    def open(self) -> Saved:
        """Nothing was kept."""
        return Saved()

    def start(
        self, on_durable: Callable[[int], None], on_failure: Callable[[Exception], None]
    ) -> None:
        """Remember whom to tell."""
        _ = on_failure
        self._on_durable = on_durable

    def append(self, writes: Sequence[Write]) -> None:
        """Confirm at once."""
        assert self._on_durable is not None, "append before start"
        self._on_durable(writes[-1].revision)

    def save_setting(self, name: str, value: bytes) -> None:
        """Nothing to do: the server holds the value itself."""

    def close(self) -> None:
        """Nothing is open."""
