"""The webhooks of a manager on a real control plane: conversion, outages, old storage."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from multiqueue.api.config import load_configuration
from multiqueue.api.crd import load_crds
from multiqueue.api.names import GROUP
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import AlreadyExists, NotFound, TooManyRequests
from multiqueue.kube.resources import CLUSTER_QUEUES, CRDS
from tests.controlplane.conftest import StartControlPlane
from tests.webhook_world import (
    OLD_QUEUES,
    assert_an_outage_is_narrow,
    assert_an_outage_stops_conversion,
    assert_both_versions_convert,
    old_queue,
    until_true,
    webhook_world,
)

CONFIG = load_configuration("webhook: {host: 127.0.0.1, port: 0}")
ALL_JOBS = load_configuration(
    """
    webhook: {host: 127.0.0.1, port: 0}
    manageJobsWithoutQueueName: true
    managedJobsNamespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}
    """
)


def kueue_definitions() -> list[dict[str, Any]]:
    """Definitions of the kinds that are served in two versions."""
    return [crd for crd in load_crds() if crd["spec"]["group"] == GROUP]


async def define(client: KubeClient, *, stored: str = "v1beta2") -> None:
    """Create our definitions, or choose another storage version, and wait until it is served."""
    for crd in kueue_definitions():
        name, spec = crd["metadata"]["name"], crd["spec"]
        for version in spec["versions"]:
            version["storage"] = version["name"] == stored
        try:
            await client.create(CRDS, crd)
        except AlreadyExists:
            await client.patch(CRDS, name, {"spec": {"versions": spec["versions"]}})
        path = f"/apis/kueue.x-k8s.io/{stored}/{spec['names']['plural']}"
        await until_true(lambda at=path: answers(client, at))


async def answers(client: KubeClient, path: str) -> bool:
    try:
        await client.request("GET", path)
    except (NotFound, TooManyRequests):  # not served yet, or the cache of a new storage is filled
        return False
    return True


@pytest.mark.parametrize("all_jobs", [False, True], ids=["queued jobs", "all jobs"])
@pytest.mark.timeout(180)
async def test_conversion_works_and_an_outage_is_narrow(
    start_control_plane: StartControlPlane, *, all_jobs: bool
) -> None:
    plane = await asyncio.to_thread(start_control_plane, "webhooks")
    credentials = await Credentials.from_kubeconfig_file(plane.kubeconfig)
    async with KubeClient(credentials, user_agent="test") as client:
        await define(client)
    async with webhook_world(credentials, ALL_JOBS if all_jobs else CONFIG) as world:
        await assert_both_versions_convert(world)
        await assert_an_outage_is_narrow(world, all_jobs=all_jobs)
        await assert_an_outage_stops_conversion(world)


@pytest.mark.timeout(180)
async def test_a_manager_starts_over_objects_that_are_stored_in_the_old_version(
    start_control_plane: StartControlPlane,
) -> None:
    """An upgrade from a Kueue that stored v1beta1: to read them the manager has to serve first."""
    plane = await asyncio.to_thread(start_control_plane, "upgrade", controllers=False)
    credentials = await Credentials.from_kubeconfig_file(plane.kubeconfig)
    async with KubeClient(credentials, user_agent="test") as client:
        await define(client, stored="v1beta1")
        await client.request("POST", OLD_QUEUES, body=old_queue("old", cohort="c"))
        for crd in kueue_definitions():
            versions = {"spec": {"versions": crd["spec"]["versions"]}}
            await client.patch(CRDS, crd["metadata"]["name"], versions)
        async with webhook_world(credentials, CONFIG):
            got = await client.get(CLUSTER_QUEUES, "old")
        assert got["spec"]["cohortName"] == "c"
