"""Whether a Workload has pods anywhere, and what to say where it has none."""

from __future__ import annotations

from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.errors import CliError
from multiqueue.cli.remote.places import Place
from multiqueue.multikueue.phase import AT_WORK, ENDED, find_phase


def require_pods(workload: Workload, place: Place) -> Place:
    """Return the place, if the Workload may have pods there.

    Raises:
        CliError: it has none, and why.
    """
    phase = find_phase(workload)
    if phase.state in AT_WORK | ENDED:
        return place
    why = f": {phase.why}" if phase.why else ""
    raise CliError(f'Workload "{workload.metadata.key}" has no pods now, {phase.words}{why}')
