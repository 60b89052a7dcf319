"""The defaults of TrainJobs. Pure. Parity: J-427, J-440."""

from __future__ import annotations

from multiqueue.api.config import Configuration
from multiqueue.api.validation.access import Object
from multiqueue.jobs.framework.defaulting import JobDefaults, QueueLookup
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook
from multiqueue.jobs.trainjob.runtime_patches import with_empty_entry


class TrainJobWebhook(TemplateKindWebhook):
    """The webhook of TrainJobs.

    Deviates: a job whose runtime does not exist is admitted (J-418). An Event names the runtime,
    and the job is queued once that exists. The topology annotations are in the runtime, so they are
    checked then.
    """

    def default(self, job: Object, lookup: QueueLookup, config: Configuration) -> JobDefaults:
        """Give every new job an empty entry of ours in its runtime patches, queued or not."""
        found = super().default(job, lookup, config)
        if not isinstance(found.job.get("spec"), dict):
            return found
        return JobDefaults(with_empty_entry(found.job), found.warnings)
