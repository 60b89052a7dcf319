"""Formats of strings in Kubernetes objects: quantities, times, bytes."""

import base64
import binascii
import re
from datetime import datetime
from functools import lru_cache

from multiqueue.lib.moments import in_utc
from multiqueue.lib.quantity import parse_quantity

_PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

QUANTITY_RULE = (
    r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@lru_cache(maxsize=8192)
def canonical_quantity(text: str) -> str:
    """A quantity as Kubernetes prints it: ``0.5`` is ``500m``. Raises ValueError if it is none."""
    return str(parse_quantity(text))


@lru_cache(maxsize=1024)
def canonical_time(text: str) -> str:
    """A time as Kubernetes prints it: UTC, whole seconds. Raises ValueError if it is none."""
    if _PLAIN_TIME.fullmatch(text):
        datetime.fromisoformat(text)
        return text
    return parse_time(text).strftime("%Y-%m-%dT%H:%M:%SZ")


def canonical_micro_time(text: str) -> str:
    """A time with microseconds, as Leases and newer Events have it."""
    return parse_time(text).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """An RFC 3339 time, aware UTC. Raises ValueError if it is none."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"'
        )
    return in_utc(datetime.fromisoformat(text))


def is_base64(text: str) -> bool:
    """Whether a text is standard base64, with padding."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_date_time(text: str) -> bool:
    """The ``date-time`` format of structural schemas."""
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def is_duration(text: str) -> bool:
    """The ``duration`` format: Go's, such as ``1h30m`` or ``0``."""
    return bool(re.fullmatch(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+)", text))
