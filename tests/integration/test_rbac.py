"""The program's rights: all that it needs, and nothing that it never uses.

`queue_cluster` runs every integration scenario with the rights of the manifests. Here some of them,
which together do everything that the program can do, are recorded: each rule must be used by one.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from multiqueue.api.config import Configuration
from multiqueue.api.conversion.convert import converters
from multiqueue.api.crd import load_crds
from multiqueue.api.names import V1BETA2
from multiqueue.cli.connect import ClusterTarget
from multiqueue.cli.projection.access import AdministratorAccess
from multiqueue.cli.projection.observe import read_manager
from multiqueue.cli.projection.verify import VerifyScope, verify_workers
from multiqueue.embedded.server.authz.attributes import Attributes
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from multiqueue.runtime.manager import Manager
from multiqueue.runtime.manifests import create_missing
from multiqueue.serving.free_ports import find_free_ports
from multiqueue.visibility.setup import SECRET_NAME as VISIBILITY_SECRET
from multiqueue.webhooks.registration import MUTATING_NAME, VALIDATING_NAME
from tests.builders.job_kinds import GADGET
from tests.builders.queues import make_cluster_queue
from tests.integration import test_controllers_admission as admission
from tests.integration import test_controllers_devices as devices
from tests.integration import test_controllers_faults as faults
from tests.integration import test_controllers_queues as queues
from tests.integration import test_controllers_recovery as recovery
from tests.integration import test_controllers_topology as topology
from tests.integration import test_declared_kinds as declared_kinds
from tests.integration import test_dispatch_profiles as dispatch_profiles
from tests.integration import test_disruption_policies as disruption_policies
from tests.integration import test_multikueue_capabilities as capabilities
from tests.integration import test_multikueue_dispatch as dispatch
from tests.integration import test_multikueue_elastic as elastic
from tests.integration import test_multikueue_failures as failures
from tests.integration import test_multikueue_jobs as remote_jobs
from tests.integration import test_multikueue_profiles as profiles
from tests.integration import test_multikueue_terrain as node_model
from tests.integration import test_multikueue_writes as writes
from tests.integration import test_provisioning as provisioning
from tests.integration import test_provisioning_faults as provisioning_faults
from tests.integration import test_quota_plans as quota_plans
from tests.integration import test_remote_access as remote_access
from tests.integration.test_runtime_manager import make_config, running
from tests.integration.waiting import until_one
from tests.least_privilege import (
    MANAGER,
    MANAGER_FILES,
    MANAGER_TOKEN,
    REMOTE,
    REMOTE_FILES,
    REMOTE_TOKEN,
    TOKENS,
    Call,
    audit_sink,
    documents,
    kubeconfig_of,
    rbac_objects,
    recorded_calls,
)
from tests.multikueue_world import multikueue_world


class Grant(NamedTuple):
    """One verb on one kind of thing, for all objects or the one of a name."""

    verb: str
    group: str
    resource: str
    name: str
    namespace: str


STANDARD = {
    Grant("list", "", "configmaps", "extension-apiserver-authentication", "kube-system"),
    Grant("watch", "", "configmaps", "extension-apiserver-authentication", "kube-system"),
    Grant("create", "authorization.k8s.io", "selfsubjectaccessreviews", "", ""),
    Grant("create", "authorization.k8s.io", "selfsubjectrulesreviews", "", ""),
}
"""Of roles that Kubernetes brings along: extension-apiserver-authentication-reader, and
system:basic-user."""
OWNERS = "asked for by OwnerReferencesPermissionEnforcement, which not every API server runs"
UNUSED: dict[str, dict[tuple[str, str], str]] = {
    MANAGER.name: {
        ("update", "jobs/finalizers"): OWNERS,
        ("update", "workloads/finalizers"): OWNERS,
        ("update", "provisioningrequests/finalizers"): OWNERS,
    },
    REMOTE.name: {},
}
"""(verb, resource) -> why it is granted though no call asks for it."""


def grants(names: Iterable[str]) -> Iterator[Grant]:
    """What the roles of some files grant, one by one."""
    for role in (obj for name in names for obj in documents(name) if obj["kind"].endswith("Role")):
        namespace = role["metadata"].get("namespace", "")
        for rule in role["rules"]:
            for group in rule.get("apiGroups", ()):
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            yield Grant(verb, group, resource, name, namespace)


def covers(grant: Grant, wanted: Attributes) -> bool:
    return (
        (grant.verb, grant.group, grant.resource) == (wanted.verb, wanted.group, wanted.combined)
        and grant.name in {"", wanted.name}
        and grant.namespace in {"", wanted.namespace}
    )


def constraints(calls: list[Call], user: str) -> set[Attributes]:
    """What a user asked for, except for jobs of declared kinds: an administrator grants those."""
    return {
        wanted
        for caller, wanted in calls
        if caller.name == user and wanted.resource and wanted.group != GADGET.group
    }


async def write_to_a_worker_twice() -> None:
    for scenario in (
        writes.test_somebody_else_s_workload_of_that_name_is_not_taken_over,
        writes.test_a_copy_is_deactivated_on_its_newest_state,
    ):
        async with writes.a_worker() as worker:
            await scenario(worker)


async def watch_cluster_profiles() -> None:
    with tempfile.TemporaryDirectory() as directory:
        await profiles.test_what_is_wrong_with_a_profile_is_named(Path(directory))


async def run_managers_in_a_cluster() -> None:
    """Two in a row, as pods: what the first has left is looked after by the second."""
    options = ServerOptions(
        crds=load_crds(), converters=converters(), tokens=TOKENS, audit=audit_sink()
    )
    async with ApiServer(options) as server:
        admin = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        kubeconfig = kubeconfig_of(server.kubeconfig(), MANAGER_TOKEN)
        credentials = await Credentials.from_kubeconfig_dict(kubeconfig)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            async with KubeClient(admin) as client:
                installed = [obj for name in INSTALLED_FILES for obj in documents(name)]
                await create_missing(client, [NAMESPACE, *rbac_objects(), *installed])
                first, second = (Manager(in_cluster_config(), credentials) for _ in range(2))
                async with running(first):
                    await first.until_at_work()
                    await look_at(first, server, client)
                await spoil_registration(client)
                async with running(second):
                    await second.until_at_work()
                    await until_one(client, SECRETS, VISIBILITY_SECRET, has_certificate)


async def verify_a_worker() -> None:
    """As the command does it: with what the manager has stored."""
    async with multikueue_world("worker1") as world:
        hub = world.hub.client
        view = await read_manager(hub, namespace="kueue-system", fleet_file=None)
        scope = VerifyScope(
            access=AdministratorAccess({}, {}),
            manager=ClusterTarget(kubeconfig=None, context=None),
            namespace="kueue-system",
            expires_within=timedelta(days=1),
        )
        (report,) = await verify_workers(hub, view, ["worker1"], scope)
        assert (report.drift, report.unknown) == ([], [])


NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
INSTALLED_FILES = (
    "webhook/configurations.yaml",
    "visibility/service.yaml",
    "visibility/api_services.yaml",
)
"""What the manager fills in, and may not make."""
COHORT = {"apiVersion": V1BETA2, "kind": "Cohort", "metadata": {"name": "all"}}


def in_cluster_config() -> Configuration:
    return make_config(
        leaderElection={},  # nothing ends on a busy machine
        webhook={"port": find_free_ports(1)[0]},
        metrics={"bindAddress": "0.0.0.0:0"},
        visibilityServer={"bindAddress": "127.0.0.1", "bindPort": find_free_ports(1)[0]},
        fairSharing={"preemptionStrategies": ["LessThanOrEqualToFinalShare"]},
    )


def has_certificate(secret: dict[str, Any]) -> bool:
    return bool(secret["data"]["tls.crt"])


async def look_at(manager: Manager, server: ApiServer, client: KubeClient) -> None:
    """Have it write the status of a Cohort, and check a token for its metrics."""
    webhooks = f"https://127.0.0.1:{manager.config.webhook.port}"
    server.map_service("kueue-system", "kueue-webhook-service", webhooks)
    await client.create(COHORTS, COHORT)
    await client.create(CLUSTER_QUEUES, make_cluster_queue(cohortName="all"))
    await until_one(
        client, COHORTS, "all", lambda cohort: "fairSharing" in cohort.get("status", {})
    )
    url = f"https://127.0.0.1:{manager.metrics_port}/metrics"
    headers = {"Authorization": f"Bearer {REMOTE_TOKEN}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False) as answer,
    ):
        assert answer.status == 403


async def spoil_registration(client: KubeClient) -> None:
    """Give the next manager something to put right, once nobody looks after it."""
    for name in ("kueue-webhook-server-cert", VISIBILITY_SECRET):
        await client.patch(SECRETS, name, {"data": {"tls.crt": ""}}, namespace="kueue-system")
    for resource, name in (
        (MUTATING_WEBHOOKS, MUTATING_NAME),
        (VALIDATING_WEBHOOKS, VALIDATING_NAME),
    ):
        await client.patch(resource, name, {"webhooks": []})


SCENARIOS: tuple[Callable[[], Any], ...] = (
    run_managers_in_a_cluster,
    admission.test_a_job_is_admitted_with_its_flavor_and_started,
    queues.test_a_queue_stays_until_nothing_holds_its_quota,
    devices.test_claims_and_extended_resources_share_one_quota,
    faults.test_finished_workloads_go_when_their_time_is_over,
    faults.test_a_job_that_was_given_up_goes_when_its_time_is_over,
    faults.test_somebody_elses_write_in_between_costs_one_more_try,
    recovery.test_only_what_is_marked_as_safe_is_removed_and_only_once_the_node_is_lost,
    topology.test_a_node_that_is_gone_is_replaced_in_its_rack,
    provisioning.test_pods_start_on_the_capacity_that_was_asked_for,
    provisioning_faults.test_killed_between_the_request_and_its_templates,
    provisioning_faults.test_a_name_that_is_taken_is_told_and_tried_again,
    provisioning_faults.test_a_template_of_somebody_else_is_left_alone,
    provisioning_faults.test_a_template_that_an_earlier_workload_left_is_replaced,
    provisioning_faults.test_a_check_that_leaves_the_queue_takes_its_requests_along,
    capabilities.test_versions_kinds_and_flavors_of_workers_are_published_and_shown,
    dispatch.test_score_sends_one_copy_to_the_worker_where_the_least_is_left_over,
    declared_kinds.test_the_older_of_two_kinds_wins_and_a_built_in_kind_is_refused,
    disruption_policies.test_the_status_says_whether_a_policy_counts,
    quota_plans.test_somebody_else_s_quota_in_the_middle_of_a_change_ends_it,
    dispatch_profiles.test_a_shadow_is_asked_and_nothing_of_it_is_done,
    remote_jobs.test_an_eviction_here_stops_the_job_there_before_the_quota_goes,
    remote_jobs.test_status_comes_back_and_the_end_cleans_up,
    remote_jobs.test_a_changed_priority_class_reaches_the_copy,
    elastic.test_a_job_grows_on_its_worker_and_nowhere_else,
    watch_cluster_profiles,
    failures.test_a_job_of_ours_that_names_no_workload_is_collected_with_its_namesake_here,
    remote_access.test_what_a_job_has_on_its_worker_is_served,
    node_model.test_gangs_are_foreseen_to_start_where_a_rack_has_room,
    write_to_a_worker_twice,
    verify_a_worker,
)


GENERATED = ("rbac/job_kinds_role.yaml", "worker-role/job_kinds.yaml")


def record_scenarios() -> list[Call]:
    with recorded_calls() as found:
        for scenario in SCENARIOS:
            if inspect.iscoroutinefunction(scenario):
                asyncio.run(scenario())
            else:
                scenario()
    return found


@pytest.mark.timeout(300)
def test_the_rights_are_what_is_used_and_no_more() -> None:
    """One test: the scenarios are played once (M-225)."""
    calls = record_scenarios()
    refused, unused = {}, {}
    for user, files in ((MANAGER, MANAGER_FILES), (REMOTE, REMOTE_FILES)):
        asked = constraints(calls, user.name)
        granted = set(grants(files))
        allowed = granted | STANDARD
        refused[user.name] = [w for w in asked if not any(covers(grant, w) for grant in allowed)]
        # The rights of the other kinds come from the table of kinds; the scenarios play only Jobs.
        own = set(grants([file for file in files if file not in GENERATED]))
        left = [grant for grant in own if not any(covers(grant, wanted) for wanted in asked)]
        unused[user.name] = {(grant.verb, grant.resource) for grant in left}
    assert refused == {MANAGER.name: [], REMOTE.name: []}
    assert unused == {user.name: set(UNUSED[user.name]) for user in (MANAGER, REMOTE)}
    # Nothing deletes whole collections, or acts as somebody else.
    verbs = {wanted.verb for _, wanted in calls if wanted.resource}
    assert verbs == {"create", "delete", "get", "list", "patch", "watch"}
