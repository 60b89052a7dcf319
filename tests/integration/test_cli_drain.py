"""Cordon and drain as an administrator types them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from multiqueue.api import names
from multiqueue.dashboard.actions import PageActions
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.manager_names import LEASE
from multiqueue.kube.resources import LEASES
from multiqueue.runtime.manifests import apply_all
from tests.builders.workloads import NAMESPACE
from tests.integration.test_cli_commands import UserShell
from tests.integration.test_multikueue_drain import (
    GANGS,
    condition,
    set_quota,
    submit_to,
    until_on,
    until_says,
    where,
)
from tests.least_privilege import REMOTE, REMOTE_TOKEN, documents, kubeconfig_of
from tests.multikueue_world import MultiKueueWorld, multikueue_world


@asynccontextmanager
async def shell_of_fleet(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[tuple[UserShell, MultiKueueWorld]]:
    """A manager with workers a and b, and a command line."""
    # What the manager logs would be mixed with what the commands print.
    with structlog.testing.capture_logs():
        async with multikueue_world("a", "b", real_workers=True) as world, world.manager():
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(world.hub.server.kubeconfig()))
            await world.until_connected()
            yield UserShell(kubeconfig, capsys), world


async def test_a_drain_from_plan_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with shell_of_fleet(tmp_path, capsys) as (shell, world):
        await submit_to(world, "a", GANGS)
        plan = await shell.run("clusters", "drain", "a", "--dry-run", "--rate", "60/min")
        assert "4 would be moved.\n" in plan
        assert "in this order, at most 4 at a time and one every 1 s" in plan
        assert "Nothing was changed" in plan
        data = await shell.json("clusters", "drain", "a", "--dry-run")
        assert [(each["fate"], each["to"]) for each in data["workloads"]] == [("Moves", "b")] * 4
        assert condition(world, "a") is None

        told = (await shell.run("clusters", "drain", "a")).splitlines()
        assert told[0] == "a is being drained"
        assert told[-1].startswith("Drained: 4 moved, 0 moving, 0 left; at most 0.")
        for job in GANGS:
            await until_on(world, "b", job)
        again = await shell.json("clusters", "drain", "a")
        assert (again["state"], again["moved"], again["left"]) == ("Drained", 4, 0)

        table = await shell.run("clusters")
        assert [line.split()[:3] for line in table.splitlines()[1:]] == [
            ["a", "Connected", "Drained"],
            ["b", "Connected", "In"],
        ]
        assert await shell.run("clusters", "uncordon", "a") == "a uncordoned\n"
        assert await shell.run("clusters", "uncordon", "a") == "a is in use already\n"

        told = await shell.run("clusters", "show", "b")
        assert told.startswith("b: connected")
        assert all(f"Job/{job}" in told for job in GANGS)
        assert "admitted on b" in told
        assert "Job/" not in await shell.run("clusters", "show", "a")
        flavor = (await shell.json("flavors"))[0]
        assert flavor["gpus"] >= len(GANGS)
        assert flavor["clusterQueues"]
        assert "note: only quotas of ClusterQueues are counted" in shell.errors
        await shell.run("clusters", "show", "c", code=1)
        assert 'no MultiKueueCluster "c"' in shell.errors


async def test_what_is_left_needs_somebody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_of_fleet(tmp_path, capsys) as (shell, world):
        await set_quota(world, "b", 2)
        await submit_to(world, "a", ["large"], gpus=8)
        told = await shell.run("clusters", "drain", "a", code=1)
        assert "Stuck: 0 moved, 0 moving, 1 left" in told
        assert "stays: no other cluster can ever hold it: b has at most 2 nvidia.com/gpu" in told
        assert where(world, "large") == "a"
        stays = "Stays:  a is being drained; it stays for now: no other cluster can ever hold it: b"
        assert stays in await shell.run("why", "large", "-n", NAMESPACE)
        told = await shell.run("clusters", "drain", "a", "--force")
        assert "Drained: 0 moved, 1 stopped by force, 0 moving, 0 left" in told
        ended = await shell.json("clusters", "drain", "a")
        assert (ended["moved"], ended["stoppedByForce"]) == (0, 1)


async def ask_the_page(world: MultiKueueWorld) -> list[dict[str, Any]]:
    """Return what the dashboard tells about each job before worker a is drained."""
    actions = PageActions(world.hub.client, SystemClock().now, asyncio.Semaphore(), "kueue-system")
    target = {"kind": "multikueueclusters", "name": "a"}
    told = await actions.describe({**target, "verb": "drain"})
    workloads: list[dict[str, Any]] = told["plan"]["workloads"]
    return workloads


async def test_a_plan_tells_who_moves_who_waits_and_who_never_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_of_fleet(tmp_path, capsys) as (shell, world):
        await set_quota(world, "b", 2)
        await submit_to(world, "a", ["large"], gpus=5)
        await submit_to(world, "a", ["first"], gpus=2)
        await submit_to(world, "a", ["second"], gpus=1)
        plan = await shell.json("clusters", "drain", "a", "--dry-run", "--grace", "1h")
        fates = {each["workload"]: (each["fate"], each["to"]) for each in plan["workloads"]}
        keys = {job: world.workload(job).metadata.key for job in ("large", "first", "second")}
        assert fates == {
            keys["large"]: ("Stays", None),
            keys["first"]: ("Moves", "b"),
            keys["second"]: ("Waits", None),
        }
        assert plan["counts"] == {"moves": 1, "waits": 1, "stays": 1, "stops": 0}
        whys = {each["workload"]: each["why"] for each in plan["workloads"]}
        assert "can ever hold it: b has at most 2" in whys[keys["large"]]
        assert "1 nvidia.com/gpu asked, 0 free" in whys[keys["second"]]
        assert plan["order"]["notBefore"]
        page = await ask_the_page(world)
        told = [(each["workload"], each["fate"], each["to"], each["why"]) for each in page]
        assert told == [
            (each["workload"], each["fate"], each["to"], each["why"]) for each in plan["workloads"]
        ], "S-39: the page shows the same fates"
        table = await shell.run("clusters", "drain", "a", "--dry-run", "--force")
        assert "moves to b" in table
        assert "2 would be stopped by force, with nowhere to go" in table


async def test_another_order_changes_only_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_of_fleet(tmp_path, capsys) as (shell, world):

        def order() -> str:
            cluster = world.hub.informers.multikueue_clusters.store.get("a")
            return cluster.metadata.annotations[names.DRAIN] if cluster is not None else ""

        await submit_to(world, "a", GANGS[:1])
        began = await shell.json("clusters", "drain", "a", "--grace", "3600", "--no-wait")
        assert began["state"] in {"Draining", "Waiting"}
        await until_says(world, "a", "nothing is moved before")
        grace = order()
        told = await shell.run("clusters", "drain", "a", "--no-wait")
        assert told == f"a is being drained already ({grace})\n"
        await shell.run("clusters", "drain", "a", "--no-wait", "--rate", "2/h", "--force")
        await world.changes.until(lambda: order() == f"rate=2/h,{grace},force", "another rate")
        assert where(world, GANGS[0]) == "a"

        told = await shell.run("clusters", "cordon", "a", "--reason", "psu swap")
        assert told == 'a cordoned (psu swap); its drain goes on, "uncordon" ends both\n'
        assert "already cordoned (psu swap)" in await shell.run("clusters", "cordon", "a")
        assert "psu swap: 0 moved" in await shell.run("clusters", "-o", "wide")

        await shell.run("clusters", "drain", "a", "--grace", "0", "--no-force", "--rate", "10/min")
        assert order() == "rate=10/min"
        assert where(world, GANGS[0]) != "a"


async def test_nobody_waits_longer_than_he_wants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_of_fleet(tmp_path, capsys) as (shell, world):
        await submit_to(world, "a", GANGS[:1])
        order = ("clusters", "drain", "a", "--grace", "1h")
        assert "a is being drained (not-before=2" in await shell.run(*order, "--no-wait")
        await shell.run(*order, "--timeout", "100ms", code=1)
        assert "a is not drained after" in shell.errors
        assert (await until_says(world, "a", "nothing is moved before")).startswith("0 moved")
        assert where(world, GANGS[0]) == "a"
        await shell.run("clusters", "drain", "a", "--rate", "often", code=2)
        assert '--rate: rate "often": use N/min' in shell.errors
        await shell.run("clusters", "drain", "nope", code=1)
        assert 'no MultiKueueCluster "nope"' in shell.errors
        await shell.run("clusters", "cordon", "b", "--reason", "firmware")
        assert "firmware" in await shell.run("clusters")


async def test_who_has_the_role_may_drain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (role,) = documents("rbac/drain_role.yaml")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "drainer"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "User", "name": REMOTE.name}],
    }
    async with shell_of_fleet(tmp_path, capsys) as (_, world):
        kubeconfig = tmp_path / "drainer"
        theirs = kubeconfig_of(world.hub.server.kubeconfig(), REMOTE_TOKEN)
        kubeconfig.write_text(yaml.safe_dump(theirs))
        shell = UserShell(kubeconfig, capsys)
        await shell.run("clusters", "drain", "a", code=1)
        assert "not allowed" in shell.errors
        await apply_all(world.hub.client, [role, binding])
        assert "Nothing of this manager runs on a" in await shell.run(
            "clusters", "drain", "a", "--dry-run"
        )
        assert "Drained: 0 moved" in await shell.run("clusters", "drain", "a")
        assert await shell.run("clusters", "uncordon", "a") == "a uncordoned\n"


async def test_states_are_told_to_be_old_where_no_manager_leads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_of_fleet(tmp_path, capsys) as (shell, world):
        assert (await shell.json("clusters"))[0]["stale"] is False
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": "kueue-system"},
            "spec": {"holderIdentity": "gone", "renewTime": "2026-01-01T00:00:00.000000Z"},
        }
        await world.hub.create(LEASES, lease)
        assert (await shell.json("clusters"))[0]["stale"] is True
        assert "no manager leads: the last sign of one is" in shell.errors
