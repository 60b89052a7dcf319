"""What-ifs on the live fleet, asked for as users do: through the API server, by their rights."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_cli_commands import UserShell, logs_are_not_output
from tests.integration.test_fleet_api import eventually
from tests.integration.test_whatif import (
    CROWD,
    GPU,
    fleet,
    has_quota,
    job_of,
    make_job,
    name_of,
)
from tests.integration.waiting import until

__all__ = ["logs_are_not_output"]

FLEET = "/apis/fleet.multiqueue.dev/v1alpha1"
RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1"}
QUEUES = ["clusterqueues", "cohorts", "localqueues", "multikueueclusters"]


class Asker:
    """Asks what-ifs through the API server of a fleet with two teams."""

    def __init__(self, client: KubeClient, shell: UserShell, access: Credentials) -> None:
        self.client, self.shell = client, shell
        self._access = access

    async def ask(
        self, *changes: str, namespace: str = "", user: str = "", **spec: Any
    ) -> tuple[int, Any]:
        headers = {"Authorization": await self._access.authorization() or ""}
        headers |= {"Impersonate-User": user} if user else {}
        where = f"/namespaces/{namespace}" if namespace else ""
        spec |= {"changes": list(changes)} if changes else {}
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{self._access.server}{FLEET}{where}/whatifs",
                headers=headers,
                json={"spec": spec},
                ssl=self._access.ssl_context,
            ) as answer,
        ):
            return answer.status, orjson.loads(await answer.read())

    async def holders(self) -> set[str]:
        return {
            job_of(each) for each in (await self.client.list(WORKLOADS)).items if has_quota(each)
        }

    async def list_specs(self) -> dict[str, Any]:
        """What a what-if must not change, by uid; the manager may write statuses meanwhile."""
        kinds = (WORKLOADS, CLUSTER_QUEUES)
        return {
            each["metadata"]["uid"]: each["spec"]
            for kind in kinds
            for each in (await self.client.list(kind)).items
        }

    async def allow(self, user: str, namespace: str, *rules: tuple[str, str, list[str]]) -> None:
        """Let a user do verb, group, resources in a namespace, or everywhere."""
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": f"{user}-{namespace or 'all'}"}
        metadata |= {"namespace": namespace} if namespace else {}
        role = {
            **RBAC,
            "kind": kind,
            "metadata": metadata,
            "rules": [
                {"apiGroups": [group], "resources": resources, "verbs": [verb]}
                for verb, group, resources in rules
            ],
        }
        group = RBAC["apiVersion"].partition("/")[0]
        binding = {
            **RBAC,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": kind, "name": metadata["name"]},
            "subjects": [{"kind": "User", "apiGroup": group, "name": user}],
        }
        await apply_all(self.client, [role, binding])


@asynccontextmanager
async def crowd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Asker]:
    """Two teams of one cohort, with jobs that hold all quota and jobs that wait."""
    async with fleet(tmp_path, capsys) as world:
        for name, (team, gpus) in CROWD.items():
            await world.submit(make_job(team, name, gpus))
        access = await Credentials.from_kubeconfig_file(tmp_path / "kubeconfig")
        asker = Asker(world.client, world.shell, access)

        async def answers() -> bool:
            return (await asker.ask("weight cq/research=1"))[0] == 200

        await eventually(answers)
        yield asker


async def test_a_quota_starts_on_the_fleet_whom_the_what_if_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with crowd(tmp_path, capsys) as asker:
        before = await asker.holders()
        stored = await asker.list_specs()
        code, found = await asker.ask(f"quota cq/research {GPU}=9")
        after = await asker.list_specs()
        refused = await asker.ask("quota cq/nobody cpu=1")
        file = await asker.ask("submit /etc/passwd")
        queue = await asker.client.get(CLUSTER_QUEUES, "research")
        (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
        flavor["resources"][0]["nominalQuota"] = "9"
        await asker.client.patch(CLUSTER_QUEUES, "research", {"spec": queue["spec"]})
        status = found["status"]
        rows = status["workloads"]
        starts = {name_of(r["after"]) for r in rows if r["effect"] == "starts now"}
        await until(
            asker.client,
            WORKLOADS,
            lambda all_: sum(map(has_quota, all_)) == len(before | starts),
        )
        assert await asker.holders() == before | starts
    assert (code, found["kind"], found["metadata"]["leading"]) == (200, "WhatIf", True)
    assert status["changes"] == [f"ClusterQueue research: {GPU} from 4 to 9 in flavor a100"]
    assert status["sums"]["starts"] == len(starts) > 0
    assert (status["more"], status["others"]) == (0, {})
    assert after == stored
    assert refused[0] == 422
    assert 'ClusterQueue "nobody" is not in the snapshot' in refused[1]["message"]
    assert file[0] == 422
    assert "give the manifest in spec.job" in file[1]["message"]


async def test_a_manifest_is_compared_and_tried_before_it_is_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with crowd(tmp_path, capsys) as asker:
        queue = await asker.client.get(CLUSTER_QUEUES, "research")
        file = tmp_path / "queue.json"
        file.write_bytes(orjson.dumps(queue))
        same = await asker.shell.run("quota", "diff", "-f", str(file))
        (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
        flavor["resources"][0]["nominalQuota"] = "9"
        file.write_bytes(orjson.dumps(queue))
        stored = await asker.list_specs()
        text = await asker.shell.run("quota", "diff", "-f", str(file), "--what-if")
        _, found = await asker.ask(f"quota cq/research {GPU}=9")
        queue["spec"]["resourceGroups"][0]["flavors"].append({**flavor, "name": "h100"})
        file.write_bytes(orjson.dumps(queue))
        more = await asker.shell.run("quota", "diff", "-f", str(file), "--what-if")
        queue["metadata"]["name"] = "new"
        file.write_bytes(orjson.dumps(queue))
        new = await asker.shell.json("quota", "diff", "-f", str(file), "--what-if")
        file.write_text("kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n")
        none = await asker.shell.run("quota", "diff", "-f", str(file), code=2)
        assert await asker.list_specs() == stored
    assert same == "The quotas are those of the cluster.\n"
    lines = text.splitlines()
    assert lines[1].split() == ["research", "a100", GPU, "nominalQuota", "4", "9"]
    rows = found["status"]["workloads"]
    effects = [line for line in lines if " starts now " in line]
    assert len(effects) == found["status"]["sums"]["starts"] > 0
    assert len(rows) >= len(effects)
    assert text.endswith("Nothing was changed.\n")
    assert [line for line in more.splitlines() if " starts now " in line] == effects
    assert more.endswith(
        f"Not tried, as a what-if adds and removes no quota: research h100 {GPU} nominalQuota.\n"
    )
    assert new["whatIf"] is None
    assert new["notTried"] == [f"new {name} {GPU} nominalQuota" for name in ("a100", "h100")]
    assert none == ""


async def test_jobs_of_other_namespaces_are_counted_and_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asks = ("create", "fleet.multiqueue.dev", ["whatifs"])
    sees = ("list", "kueue.x-k8s.io", ["workloads"])
    async with crowd(tmp_path, capsys) as asker:
        await asker.allow("ada", "", asks, ("list", "kueue.x-k8s.io", QUEUES))
        await asker.allow("ada", "research", sees)
        await asker.allow("bob", "research", asks, sees)
        change = f"quota cq/training {GPU}=30"
        _, whole = await asker.ask(change)
        code, found = await asker.ask(change, user="ada")
        named = await asker.ask("priority training/a=1", user="ada")
        job = make_job("research", "new", 2)
        everywhere = await asker.ask(change, user="bob")
        nobody = await asker.ask(job=job, namespace="research", user="eve")
        elsewhere = await asker.ask(job=job, namespace="training", user="bob")
        changes = await asker.ask(change, namespace="research", user="bob")
        own = await asker.ask(job=job, namespace="research", user="bob")
    strangers = [r for r in whole["status"]["workloads"] if "training/" in str(r)]
    assert strangers
    assert code == 200
    text = orjson.dumps(found["status"]).decode()
    assert "training/" not in text
    hidden = sum(found["status"]["others"].values())
    shown = len(found["status"]["workloads"])
    assert hidden == len(strangers)
    assert hidden + shown == len(whole["status"]["workloads"])
    assert found["status"]["sums"] == whole["status"]["sums"]
    for code, refusal in (named, everywhere, nobody, elsewhere):
        assert code == 403, refusal
    assert "training" in named[1]["message"]
    assert changes[0] == 422
    assert own[0] == 200, own
    told = own[1]["status"]
    assert (told["job"]["fate"], told["job"]["clusterQueue"]) == ("waits", "research")
    assert told["job"]["start"]
    assert "gpusIdle" not in told["sums"]


async def test_eta_of_a_job_that_nobody_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urgent = tmp_path / "urgent.yaml"
    urgent.write_text(yaml.safe_dump(make_job("research", "urgent", 3, priority="urgent")))
    async with crowd(tmp_path, capsys) as asker:
        count = len((await asker.client.list(JOBS)).items)
        waits = await asker.shell.run("eta", "--gpus", "2", "-n", "research")
        foreseen = await asker.shell.json("eta", "-f", str(urgent))
        text = await asker.shell.run("eta", "-f", str(urgent))
        await asker.shell.run("eta", "--gpus", "1", "--queue", "no", "-n", "research", code=1)
        missing = asker.shell.errors
        await asker.shell.run("eta", code=2)
        nothing = asker.shell.errors
        assert len((await asker.client.list(JOBS)).items) == count
        await asker.client.create(JOBS, make_job("research", "urgent", 3, priority="urgent"))
        await until(
            asker.client,
            WORKLOADS,
            lambda all_: any(job_of(each) == "urgent" and has_quota(each) for each in all_),
        )
        holders = await asker.holders()
    assert "Job/2-gpus in namespace research, not submitted" in waits
    assert "Waits:  place " in waits
    assert "Start:  " in waits
    assert foreseen["job"]["fate"] == "starts"
    rows = foreseen["workloads"]
    effects = {name_of(row["after"]): row["effect"] for row in rows}
    stopped = {name for name, effect in effects.items() if effect == "is stopped"}
    again = {name for name, effect in effects.items() if effect == "is stopped, starts again"}
    # The borrower goes. Whether one of the smaller jobs comes back at once, is a matter of turns.
    assert "a" in stopped
    assert "a" not in holders
    assert f"Start:  now once {len(stopped | again)} job" in text
    assert all(f"/{name}" in text.partition("Stops:")[2] for name in stopped | again)
    assert 'no LocalQueue "research/no", only research/jobs' in missing
    assert "give one of -f, --gpus and --calibration" in nothing
