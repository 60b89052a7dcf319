"""The whole service in front of the embedded API server: TLS, registration, outages, renewal."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from cryptography import x509

from multiqueue.api.config import Configuration, load_configuration
from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.certificates import create_authority
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import ApiError
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MUTATING_WEBHOOKS,
    RESOURCE_FLAVORS,
    SECRETS,
)
from multiqueue.kube.retries import RetryPolicy
from multiqueue.webhooks.setup import (
    WebhookService,
    build_webhooks,
    is_reached_by_url,
    serving_hosts,
)
from tests.waiting import Changes
from tests.webhook_world import (
    WebhookWorld,
    assert_an_outage_is_narrow,
    job,
    kueue,
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


@contextlib.asynccontextmanager
async def running(config: Configuration = CONFIG) -> AsyncIterator[WebhookWorld]:
    """In front of a server that converts nothing by itself."""
    async with ApiServer(ServerOptions(crds=load_crds(), tls=False)) as server:
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        async with webhook_world(credentials, config) as world:
            yield world


async def with_queue(world: WebhookWorld, *, multikueue: bool = False) -> None:
    spec: dict[str, Any] = {"namespaceSelector": {}}
    if multikueue:
        check = kueue("AdmissionCheck", "mk", {"controllerName": "kueue.x-k8s.io/multikueue"})
        await world.client.create(ADMISSION_CHECKS, check)
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "mk"}]}
    await world.client.create(CLUSTER_QUEUES, kueue("ClusterQueue", "cq", spec))
    queue = kueue("LocalQueue", "q", {"clusterQueue": "cq"}, "team")
    await world.client.create(LOCAL_QUEUES, queue, namespace="team")
    informers = world.context.informers
    wanted: list[tuple[Informer[Any], str]] = [
        (informers.local_queues, "team/q"),
        (informers.cluster_queues, "cq"),
        *([(informers.admission_checks, "mk")] if multikueue else []),
    ]
    changes = Changes(*(informer for informer, _ in wanted))
    await changes.until(lambda: all(informer.store.get(key) for informer, key in wanted))


async def test_objects_are_defaulted_and_refused_through_the_api_server() -> None:
    async with running() as world:
        flavor = await world.client.create(RESOURCE_FLAVORS, kueue("ResourceFlavor", "f", {}))
        assert flavor["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
        bad = kueue("ClusterQueue", "cq", {"fairSharing": {"weight": "-1"}})
        with pytest.raises(
            ApiError, match=r"spec\.fairSharing\.weight.*greater than or equal"
        ) as refusal:
            await world.client.create(CLUSTER_QUEUES, bad)
        assert refusal.value.status == 403


async def test_a_job_is_suspended_and_delegated() -> None:
    async with running() as world:
        await with_queue(world, multikueue=True)
        created = await world.client.create(JOBS, job("j", "q"), namespace="team")
        assert created["spec"]["suspend"] is True
        assert created["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"


async def test_an_outage_blocks_only_who_asked_for_a_queue() -> None:
    async with running() as world:
        await assert_an_outage_is_narrow(world, all_jobs=False)


async def test_an_outage_is_bounded_by_the_selector_where_all_jobs_are_managed() -> None:
    async with running(ALL_JOBS) as world:
        await assert_an_outage_is_narrow(world, all_jobs=True)


async def served_certificate(port: int) -> x509.Certificate:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der)


async def test_a_new_certificate_is_shown_without_a_restart() -> None:
    async with running() as world:
        before = await served_certificate(world.service.server.port)
        await world.client.delete(SECRETS, "kueue-webhook-server-cert", namespace="kueue-system")
        await world.service.look_after_once()
        after = await served_certificate(world.service.server.port)
        assert after != before
        created = await world.client.create(RESOURCE_FLAVORS, kueue("ResourceFlavor", "f", {}))
        assert created["metadata"]["finalizers"]


async def test_replicas_share_one_authority() -> None:
    async with running() as world:
        other = build_webhooks(world.context, environment={})
        secret = await world.client.get(
            SECRETS, "kueue-webhook-server-cert", namespace="kueue-system"
        )
        serving = await other.load_certificate()
        assert serving.authority == (await world.service.load_certificate()).authority
        again = await world.client.get(
            SECRETS, "kueue-webhook-server-cert", namespace="kueue-system"
        )
        assert again["metadata"]["resourceVersion"] == secret["metadata"]["resourceVersion"]


async def test_a_changed_registration_is_put_right_and_a_good_one_left_alone() -> None:
    async with running() as world:
        name = "kueue-mutating-webhook-configuration"
        before = await world.client.get(MUTATING_WEBHOOKS, name)
        await world.service.look_after_once()
        same = await world.client.get(MUTATING_WEBHOOKS, name)
        assert same["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        await world.client.patch(MUTATING_WEBHOOKS, name, {"webhooks": before["webhooks"][:1]})
        await world.service.look_after_once()
        assert len((await world.client.get(MUTATING_WEBHOOKS, name))["webhooks"]) == 6


def test_in_a_cluster_the_service_is_named() -> None:
    in_cluster = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert not is_reached_by_url(Configuration(), in_cluster)
    assert is_reached_by_url(Configuration(), {})
    assert is_reached_by_url(CONFIG, in_cluster)
    assert serving_hosts(Configuration(), "")[0] == "kueue-webhook-service.kueue-system.svc"


class MissingFiles:
    """A certificate that comes after a while."""

    def __init__(self, problems: list[OSError | Serving], then: Serving) -> None:
        self.problems = problems
        self.then = then

    async def load(self) -> Serving:
        if not self.problems:
            return self.then
        if isinstance(problem := self.problems.pop(0), Serving):
            return problem
        raise problem


async def test_a_missing_certificate_is_told_once_for_each_cause() -> None:
    problems = [FileNotFoundError("gone"), FileNotFoundError("gone"), PermissionError("not ours")]
    async with running() as world:
        whole = await world.service.load_certificate()
        half = Serving(whole.certificate, create_authority("new", datetime.now(UTC)).key, b"")
        source = MissingFiles([*problems, half], whole)
        at_once = RetryPolicy(first=0.0)
        service = WebhookService(
            world.context, source, host="127.0.0.1", by_url=True, retries=at_once
        )
        with structlog.testing.capture_logs() as logs:
            await service.show_first()
        hooks = (await world.client.list(MUTATING_WEBHOOKS)).items[0]["webhooks"]
    told = [log["error"] for log in logs if "not available" in log["event"]]
    assert told[:2] == ["gone", "not ours"]
    assert "key values mismatch" in told[2]
    assert ["nothing is defaulted" in log["event"] for log in logs].count(True) == 1
    assert {hook["failurePolicy"] for hook in hooks} == {"Ignore"}


async def test_a_leader_does_not_wait_for_a_certificate_that_is_missing() -> None:
    class NoFiles:
        async def load(self) -> Serving:
            raise FileNotFoundError("gone")

    async with running() as world:
        much_later = RetryPolicy(first=3600.0)
        service = WebhookService(
            world.context, NoFiles(), host="127.0.0.1", by_url=True, retries=much_later
        )
        waiting = asyncio.create_task(service.show_first())
        try:
            async with asyncio.timeout(10):
                await service.settled.wait()
                service.lead()
                await service.settled.wait()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
