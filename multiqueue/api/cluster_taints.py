"""Taints and tolerations of clusters, in kubectl's notation for taints of nodes. Pure.

A taint is ``key:Effect`` or ``key=value:Effect``. A toleration has the same form. Without an
effect, it tolerates all effects; ``key`` without a value tolerates every value, and ``*`` tolerates
all taints. Items of lists are separated by commas. ``NoSchedule`` excludes a cluster, and
``PreferNoSchedule`` ranks it behind others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from multiqueue.api.markers import LABEL_KEY_PATTERN
from multiqueue.api.v1beta2.meta import Taint, Toleration

KEEPS_OFF, PUTS_BEHIND = "NoSchedule", "PreferNoSchedule"
EFFECTS = (KEEPS_OFF, PUTS_BEHIND)
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def parse_taints(text: str) -> tuple[Taint, ...]:
    """Read the taints of a cluster.

    Raises:
        ValueError: an item is malformed; the message names it and says what to write.
    """
    return tuple(_parse_taint(part) for part in _split(text))


def parse_tolerations(text: str) -> tuple[Toleration, ...]:
    """Read the tolerations of a job.

    Raises:
        ValueError: an item is malformed; the message names it and says what to write.
    """
    return tuple(_parse_toleration(part) for part in _split(text))


def find_untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], effect: str
) -> Taint | None:
    """Return the first taint with this effect that no toleration covers."""
    known = tuple(tolerations)
    for taint in taints:
        if taint.effect == effect and not any(_tolerates(each, taint) for each in known):
            return taint
    return None


def format_taint(taint: Taint) -> str:
    """Format a taint in the notation that `parse_taints` reads."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _split(text: str) -> Iterator[str]:
    return (part for piece in text.split(",") if (part := piece.strip()))


def _parse_taint(text: str) -> Taint:
    body, colon, effect = text.partition(":")
    if not colon or effect not in EFFECTS:
        raise ValueError(f'"{text}" must be key:effect or key=value:effect, with {_one_of()}')
    key, _, value = _parse_pair(body, text)
    return Taint(key=key, value=value, effect=effect)


def _parse_toleration(text: str) -> Toleration:
    if text == "*":
        return Toleration(operator="Exists")
    body, colon, effect = text.partition(":")
    if colon and effect not in EFFECTS:
        raise ValueError(f'"{text}" must end with {_one_of()}, or leave the effect out')
    key, has_value, value = _parse_pair(body, text)
    operator = "Equal" if has_value else "Exists"
    return Toleration(key=key, operator=operator, value=value, effect=effect)


def _parse_pair(body: str, text: str) -> tuple[str, bool, str]:
    key, equals, value = body.partition("=")
    if not re.fullmatch(LABEL_KEY_PATTERN, key):
        raise ValueError(f'"{text}": "{key}" is no key; write one as for labels')
    if not _VALUE.fullmatch(value):
        raise ValueError(f'"{text}": "{value}" is no value; write one as for labels')
    return key, bool(equals), value


def _one_of() -> str:
    return f"an effect of {' or '.join(EFFECTS)}"


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in {"", taint.effect}:
        return False
    if toleration.key not in {"", taint.key}:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
