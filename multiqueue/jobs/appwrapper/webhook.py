"""The rules of AppWrappers. Pure. Parity: J-470, J-481."""

from __future__ import annotations

import re
from collections.abc import Iterator

from multiqueue.api.config import Configuration
from multiqueue.api.validation.field_error import FieldError, invalid
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,58}[a-z0-9])?")


class AppWrapperWebhook(TemplateKindWebhook):
    """The webhook of AppWrappers: topology annotations in their components are not checked.

    Deviates: a name of which no pod set can be named is refused. Upstream admits the AppWrapper,
    and never makes a Workload.
    """

    repeats_create_rules = False
    checks_topology = False

    def validate_more(self, job: Job, config: Configuration) -> Iterator[FieldError]:
        """Yield an error if the name does not fit the names of pod sets."""
        name = job["metadata"].get("name") or ""
        if name and not _NAME.fullmatch(name):
            yield invalid(
                "metadata.name",
                name,
                "a queued AppWrapper needs a name of at most 60 lower case letters, digits"
                " and '-', since its pod sets are named after it",
            )
