"""Structured logs, one line per entry, without secrets.

The owner of the process calls `configure_logging` once; modules only call
`structlog.get_logger(component=...)`. Lines are JSON for machines, coloured text for a terminal.
Records of libraries that use the standard library's logging go to the same stream.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from enum import StrEnum
from typing import Any, TextIO

import orjson
import structlog

REDACTED = "[redacted]"
MAX_DEPTH = 6
"""How deep values are searched for secrets; entries are flat, so it only bounds the work."""

_SECRET_KEY = re.compile(
    r"token|password|passwd|secret|authorization|kubeconfig|credential|private.?key|client.?key|"
    r"certificate.?data|api.?key|cookie",
    re.IGNORECASE,
)
_SECRET_DATA = frozenset({"data", "stringdata", "string_data", "binarydata"})
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
# These keys sound like secrets, but their values are names of objects or numbers.
_HARMLESS_KEYS = frozenset({"secret_name", "secretname", "tokens_available"})


class LogThreshold:
    """The least important level that is written; it can change while the process runs.

    Attributes:
        level: The level as a number of the standard library's ``logging``.
    """

    level = logging.INFO

    def set(self, name: str) -> None:
        """Write entries of this level and above: ``debug``, ``info``, ``warning``, ``error``."""
        self.level = logging.getLevelNamesMapping()[name.upper()]
        logging.getLogger().setLevel(max(self.level, logging.WARNING))

    def drop_less(
        self, _logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Drop what is less important; a structlog processor."""
        if structlog.processors.NAME_TO_LEVEL.get(method, self.level) < self.level:
            raise structlog.DropEvent
        return event


THRESHOLD = LogThreshold()
"""That of this process."""


class LogFormat(StrEnum):
    """The format of log lines."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


def configure_logging(
    *,
    level: str = "info",
    format: LogFormat = LogFormat.AUTO,  # noqa: A002 - the word of the configuration
    stream: TextIO | None = None,
) -> None:
    """Set up the logs of this process.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        format: The format of the lines; AUTO means text if the stream is a terminal, else JSON.
        stream: The stream to write to; standard error by default, because standard output is for
            results.
    """
    stream = stream or sys.stderr
    json = format is LogFormat.JSON or (format is LogFormat.AUTO and not stream.isatty())
    renderer: structlog.typing.Processor
    if json:
        renderer = structlog.processors.JSONRenderer(serializer=_dump)
        factory: Any = structlog.BytesLoggerFactory(stream.buffer)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty(), timestamp_key="ts")
        factory = structlog.PrintLoggerFactory(stream)
    structlog.configure(
        processors=[
            THRESHOLD.drop_less,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            redact,  # after the tracebacks are text, before anything is written
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    logging.getLogger().handlers[:] = [_Adopt()]
    THRESHOLD.set(level)


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask secrets; a structlog processor."""
    for key, value in event.items():
        if _is_secret(key):
            event[key] = REDACTED
        elif type(value) is str:
            if "earer" in value or "asic" in value:
                event[key] = _BEARER.sub(r"\1 " + REDACTED, value)
        elif isinstance(value, Mapping | list | tuple):
            event[key] = _redact_value(key, value, MAX_DEPTH)
    return event


def _redact_value(key: str, value: Any, depth: int) -> Any:
    if _is_secret(key) or depth == 0:
        return REDACTED
    if isinstance(value, Mapping):
        if key.lower() in _SECRET_DATA:
            return REDACTED
        return {str(k): _redact_value(str(k), v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value("", item, depth - 1) for item in value]
    if isinstance(value, str):
        return _BEARER.sub(r"\1 " + REDACTED, value)
    return value


@functools.lru_cache(maxsize=1024)
def _is_secret(key: str) -> bool:
    return key.lower() not in _HARMLESS_KEYS and _SECRET_KEY.search(key) is not None


def _dump(event: Any, **_: Any) -> bytes:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS)


class _Adopt(logging.Handler):
    """Passes records of libraries to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record through structlog."""
        log = structlog.get_logger(component=record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
