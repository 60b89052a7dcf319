"""The pods of a job without following it, or why it has none."""

from __future__ import annotations

from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.errors import CliError
from multiqueue.cli.remote.places import JobPlace, JobPlaces
from multiqueue.jobs.belongings import Json
from multiqueue.kube.errors import NotFound
from multiqueue.views.phase import AT_WORK, ENDED, find_phase


async def list_pods(workload: Workload, places: JobPlaces) -> tuple[JobPlace, list[Json]]:
    """Return the place of a Workload's pods, and the pods.

    Raises:
        CliError: it has none; the message says why.
    """
    phase = find_phase(workload)
    title = f'Workload "{workload.metadata.key}"'
    if phase.state not in AT_WORK | ENDED:
        why = f": {phase.why}" if phase.why else ""
        raise CliError(f"{title} has no pods now, {phase.words}{why}")
    place = await places.find(workload)
    try:
        return place, await place.list_pods()
    except NotFound as error:
        if phase.state in ENDED:
            raise CliError(
                f"{title} has {phase.words}: its pods and their logs went with its copy there; "
                "follow what you want to keep with logs -f while it runs"
            ) from error
        raise CliError(f"{title} has no pods yet: {error.server_message}") from error
