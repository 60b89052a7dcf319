"""A kind of job from outside of the package: what its forty lines say is all that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from multiqueue.api.job_kinds import KnownKind
from multiqueue.embedded.cluster.kind_crds import build_kind_crd
from multiqueue.jobs.framework.copy_adapter import CopyAdapter
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook
from multiqueue.jobs.framework.template_kind import (
    PodSetSource,
    TemplateKind,
    finished_by_condition,
)
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.rights import build_role, manager_rules, worker_rules
from multiqueue.runtime.manifests import create_missing
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import make_config, multikueue_world

ROW = KnownKind(
    framework="toys.example.com/toy",
    kind="Toy",
    group="toys.example.com",
    version="v1",
    plural="toys",
    folder="toy",
)


class Toy(TemplateKind):
    """A toy has one template, a size, and conditions."""

    own_controller = "toys.example.com/operator"

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        return [PodSetSource(name="main", template=("spec", "template"), count=job["spec"]["size"])]

    def finished(self, job: Job) -> Finished | None:
        return finished_by_condition(job, success="Done", failure="Broken")

    def is_active(self, job: Job) -> bool:
        return bool(get_field(job, ("status", "active")))

    def pods_ready(self, job: Job) -> bool:
        return bool(get_field(job, ("status", "active")) == job["spec"]["size"])


TOY = Toy(ROW)
KIND = SupportedKind(
    integration=TOY, webhook=TemplateKindWebhook(TOY), adapter=CopyAdapter(TOY, success="Done")
)

MANAGER_ROLE = build_role("toys-role", "kueue-controller-manager", manager_rules(ROW))
WORKER_ROLE = build_role("remote-toys-role", "multikueue-manager", worker_rules(ROW))


def make_toy(size: int) -> Job:
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
    return {
        "apiVersion": TOY.gvk.api_version,
        "kind": TOY.gvk.kind,
        "metadata": {
            "name": "train",
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": "lq"},
        },
        "spec": {
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
            "size": size,
            "template": {"spec": {"containers": [container]}},
        },
    }


async def test_it_is_queued_dispatched_and_explained() -> None:
    crd = build_kind_crd(ROW)
    assert crd is not None
    async with (
        multikueue_world("w1", real_workers=True, crds=[crd], kinds=[KIND], gpus=4) as world,
        world.manager(make_config()),
    ):
        await create_missing(world.hub.client, MANAGER_ROLE)
        await create_missing(world.workers["w1"].client, [*MANAGER_ROLE, *WORKER_ROLE])
        await world.until_connected()
        await world.hub.create(TOY.resource, make_toy(size=41))

        def refusal() -> str:
            workload = world.workload()
            conditions = workload.status.conditions if workload is not None else ()
            return next((c.message for c in conditions if c.type == "QuotaReserved"), "")

        await world.until(refusal, "an explanation")
        assert "no worker can hold 41 x nvidia.com/gpu: w1 has at most 4" in refusal()
        await world.hub.patch(TOY.resource, "train", {"spec": {"size": 2}}, namespace=NAMESPACE)
        assert await world.until_ready() == "w1"
        remote = await world.workers["w1"].client.get(TOY.resource, "train", namespace=NAMESPACE)
        assert remote["spec"]["size"] == 2
