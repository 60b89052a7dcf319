"""Options of the commands about pods: durations, and which pods are meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from multiqueue.cli.errors import CliError
from multiqueue.jobs.belongings import Json

_PART = re.compile(r"(\d+)(h|m|s)")
_SECONDS = {"h": 3600, "m": 60, "s": 1}


def parse_seconds(_context: object, _option: object, text: str | None) -> int | None:
    """Read ``1h30m``, ``10m`` or ``45s``, for click."""
    if text is None:
        return None
    if not re.fullmatch(rf"({_PART.pattern})+", text):
        raise click.BadParameter(f'"{text}" is no duration; write 45s, 10m or 1h30m')
    return max(1, sum(int(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text)))


def pick_pods(pods: Sequence[Json], wanted: str, *, all_pods: bool, job: str) -> list[Json]:
    """Return the pods whose logs are meant: the named one, all, or the first.

    Raises:
        CliError: there is none, or none of that name.
    """
    names = [pod["metadata"]["name"] for pod in pods]
    if wanted:
        if wanted not in names:
            there = f"there are: {', '.join(names)}" if names else "it has no pods now"
            raise CliError(f'{job} has no pod "{wanted}"; {there}')
        return [pods[names.index(wanted)]]
    return list(pods) if all_pods else list(pods[:1])
