"""The guard of a worker on the embedded API server, with the rights of its manifest."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.auth import service_account
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import NAMESPACES
from multiqueue.runtime.manifests import create_missing
from tests.guard_world import (
    SYSTEM,
    assert_an_outage_of_the_guard_stops_nothing,
    assert_old_copies_are_refused,
    assert_old_jobs_are_not_started,
    assert_the_probes_of_its_manifest_answer,
)
from tests.job_kinds import EXAMPLES, KindExample
from tests.least_privilege import documents, kubeconfig_of

TOKENS = {"guard": service_account(SYSTEM, "multiqueue-worker-guard")}


# A kind whose suspend field is not spec.suspend, and one with a single field more.
KINDS = [each for each in EXAMPLES if each.row.kind in {"PyTorchJob", "RayJob"}]


@contextlib.asynccontextmanager
async def guarded(*crds: Any, without: str = "") -> AsyncIterator[tuple[KubeClient, KubeClient]]:
    """An API server with the guard's manifests: clients of an administrator and of the guard."""
    async with ApiServer(ServerOptions(crds=[*load_crds(), *crds], tokens=TOKENS)) as server:
        config = server.kubeconfig()
        admin = await Credentials.from_kubeconfig_dict(config)
        guard = await Credentials.from_kubeconfig_dict(kubeconfig_of(config, "guard"))
        async with KubeClient(admin) as client, KubeClient(guard) as own:
            head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
            await client.create(NAMESPACES, head)
            for name in ("role", "job_kinds", "configuration"):
                if name != without:
                    await create_missing(client, list(documents(f"worker-guard/{name}.yaml")))
            yield client, own


async def test_old_copies_are_refused_and_an_outage_of_the_guard_stops_nothing():
    async with guarded() as (client, own):
        await assert_old_copies_are_refused(client, own)
        await assert_the_probes_of_its_manifest_answer(client, own)
        await assert_an_outage_of_the_guard_stops_nothing(client)


@pytest.mark.parametrize("example", KINDS, ids=lambda each: each.row.kind)
async def test_old_jobs_of_other_kinds_are_not_started(example: KindExample):
    async with guarded(*example.crds) as (client, own):
        await assert_old_jobs_are_not_started(client, own, example)


async def test_a_kind_that_it_may_not_follow_does_not_keep_it_from_the_others():
    """Its role is that of an older release."""
    crds = [crd for each in KINDS for crd in each.crds]
    async with guarded(*crds, without="job_kinds") as (client, own):
        await assert_old_copies_are_refused(client, own)
