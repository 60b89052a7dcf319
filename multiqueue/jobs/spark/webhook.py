"""The rules of SparkApplications. Pure. Parity: J-464."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.config import Configuration
from multiqueue.api.validation.field_error import FieldError, invalid
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook


class SparkApplicationWebhook(TemplateKindWebhook):
    """The webhook of SparkApplications."""

    def validate_more(self, job: Job, config: Configuration) -> Iterator[FieldError]:
        """Yield errors if not all pods are known, or if some run elsewhere."""
        mode = get_field(job, ("spec", "mode"))
        if mode != "cluster":
            yield invalid(
                "spec.mode", mode, "only Cluster mode is supported for a kueue managed job"
            )
        if get_field(job, ("spec", "dynamicAllocation", "enabled")):
            yield invalid(
                "spec.dynamicAllocation.enabled",
                True,
                "a kueue managed job can use dynamicAllocation only when the"
                " ElasticJobsViaWorkloadSlices feature gate is on and the job is an elastic job",
            )
