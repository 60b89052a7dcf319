"""The built-in job kinds: one line each."""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.api.config import Configuration
from multiqueue.api.job_kinds import KNOWN_FRAMEWORKS
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.jobs.framework.integration import Integration
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.jobs.registry import IntegrationRegistry

INTEGRATIONS: dict[str, Callable[[], Integration]] = {
    "batch/job": BatchJob,
}
ADAPTERS: dict[str, Callable[[], MultiKueueAdapter]] = {
    "batch/job": BatchJobAdapter,
}


class UnknownFrameworkError(Exception):
    """The Configuration names a job kind that is not built in."""


def build_registry(config: Configuration) -> IntegrationRegistry:
    """Return the integrations that the Configuration enables, in its order.

    Kinds of upstream that do not exist here are left out; loading the Configuration warns of them.

    Raises:
        UnknownFrameworkError: it names a kind that upstream does not have, either.
    """
    names = [name for name in config.integrations.frameworks if name in INTEGRATIONS]
    for name in config.integrations.frameworks:
        if name not in KNOWN_FRAMEWORKS | INTEGRATIONS.keys():
            known = ", ".join(sorted(INTEGRATIONS))
            raise UnknownFrameworkError(
                f'integrations.frameworks: "{name}" is not supported; known are: {known}'
            )
    return IntegrationRegistry(
        integrations=[INTEGRATIONS[name]() for name in names],
        adapters=[ADAPTERS[name]() for name in names if name in ADAPTERS],
    )
