"""Selects pods of a job."""

from __future__ import annotations

from collections.abc import Sequence

from multiqueue.cli.errors import CliError
from multiqueue.jobs.belongings import Json


def pick_pods(pods: Sequence[Json], wanted: str, *, all_pods: bool, job: str) -> list[Json]:
    """Return the pods whose logs are wanted: the named one, all, or the first.

    Raises:
        CliError: there is no pod, or none of that name.
    """
    names = [pod["metadata"]["name"] for pod in pods]
    if wanted:
        if wanted not in names:
            there = f"there are: {', '.join(names)}" if names else "it has no pods now"
            raise CliError(f'{job} has no pod "{wanted}"; {there}')
        return [pods[names.index(wanted)]]
    return list(pods) if all_pods else list(pods[:1])
