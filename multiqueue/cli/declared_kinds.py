"""The kinds that JobKinds declare, as a command knows them: read from the cluster once."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from enum import Enum
from functools import partial

import click

from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import JobKind
from multiqueue.cli.output import echo
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import JOB_KINDS

NO_RIGHT = (
    "you may not list JobKinds, so jobs of declared kinds are not recognized; the role "
    "kueue-jobkind-viewer-role has that right"
)


class Reading(Enum):
    """What became of the list of JobKinds in this command."""

    NOT_READ = "not read"
    READ = "read"
    FORBIDDEN = "forbidden"
    TOLD = "told"


_READING: ContextVar[Reading] = ContextVar("reading", default=Reading.NOT_READ)


async def learn_kinds(client: KubeClient) -> None:
    """Know the kinds that the cluster's JobKinds declare, for the rest of this command.

    They are read once. Without the right to list them, only the built-in kinds are known
    (`note_unknown`); a cluster that does not serve JobKinds has none.
    """
    if _READING.get() is not Reading.NOT_READ:
        return
    _READING.set(Reading.READ)
    try:
        listed = await client.list(JOB_KINDS, decode=partial(decode, JobKind))
    except NotFound:
        return
    except Forbidden:
        _READING.set(Reading.FORBIDDEN)
        return
    if listed.items:
        from multiqueue.jobs.reading import learn_job_kinds

        learn_job_kinds(listed.items)


def note_unknown(kinds: Iterable[tuple[str, str]]) -> None:
    """Say once that JobKinds could not be read, if one of the kinds is not known.

    Args:
        kinds: The apiVersion and kind of objects.
    """
    if _READING.get() is Reading.FORBIDDEN and any(find_job_kind(*k) is None for k in kinds):
        _READING.set(Reading.TOLD)
        echo(click.style(f"note: {NO_RIGHT}", dim=True), err=True)
