"""The fleet API, asked for as users do: through the API server, by their rights."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    SUBJECT_ACCESS_REVIEWS,
    WORKLOADS,
    Resource,
)
from multiqueue.runtime.manager import Manager
from multiqueue.runtime.manifests import apply_all
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, action_of, review_spec
from multiqueue.visibility.fleet.resources import BY_PLURAL
from multiqueue.visibility.fleet.rights import native_actions
from multiqueue.visibility.fleet.service import FleetApi
from tests.contract.client import unique
from tests.contract.kubectl import Kubectl
from tests.integration.test_visibility import ROLES, Asker, managed, submit

FLEET = "/apis/fleet.multiqueue.dev/v1alpha1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
RBAC = "rbac.authorization.k8s.io"
STREAM = {"Accept": "text/event-stream"}


@dataclass
class Reader:
    """Reads the fleet API of a cluster with a full queue; ``client`` is an administrator's."""

    asker: Asker
    client: KubeClient
    fleet: FleetApi
    manager: Manager

    @property
    def namespace(self) -> str:
        return self.asker.namespace

    async def ask(self, path: str, *, user: str = "", **rest: Any) -> aiohttp.ClientResponse:
        headers = dict(rest.pop("headers", {}))
        headers["Authorization"] = await self.asker.credentials.authorization() or ""
        if user:
            headers["Impersonate-User"] = user
        url, context = self.asker.credentials.server + FLEET, self.asker.credentials.ssl_context
        session = self.asker.session
        return await session.get(url + path, headers=headers, params=rest, ssl=context)

    async def read(self, path: str, **rest: Any) -> Any:
        async with await self.ask(path, **rest) as answer:
            body = await answer.read()
            assert answer.status == 200, body
            return orjson.loads(body)

    async def rows(self, path: str, **rest: Any) -> dict[str, Any]:
        """The fields of each row, by job or name."""
        items = (await self.read(path, **rest))["items"]
        return {
            row["status"].get("job", row["metadata"]["name"]).removeprefix("Job/"): row["status"]
            for row in items
        }

    async def set_quota(self, cpus: int) -> None:
        queue = await self.client.get(CLUSTER_QUEUES, self.asker.cluster_queue)
        groups = queue["spec"]["resourceGroups"]
        groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = str(cpus)
        patch = {"spec": {"resourceGroups": groups}}
        await self.client.patch(CLUSTER_QUEUES, self.asker.cluster_queue, patch)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def waiting(*jobs: str) -> AsyncIterator[Reader]:
    """A cluster with jobs of 1 CPU that wait in the LocalQueue "a", because there is no quota."""
    async with managed() as (asker, [manager]), KubeClient(asker.credentials) as client:
        assert manager.visibility is not None
        await manager.visibility.registered.wait()
        assert manager.visibility.server.fleet is not None
        reader = Reader(asker, client, manager.visibility.server.fleet, manager)
        for count, name in enumerate(jobs, start=1):
            await submit(asker, client, (name, "a"))

            async def is_listed(count: int = count) -> bool:
                answer = await reader.ask(f"/namespaces/{reader.namespace}/standings")
                async with answer:
                    found = await answer.json() if answer.status == 200 else {"items": ()}
                places = [row["status"]["position"] for row in found["items"]]
                return sorted(place or 0 for place in places) == list(range(1, count + 1))

            await eventually(is_listed)
        yield reader


async def test_rows_of_deleted_workloads_are_not_kept() -> None:
    async with waiting("one", "two") as reader:
        standings = reader.fleet.standings
        rows = await standings.find_rows(list(standings.list_keys()))
        assert (len(rows), standings.remembered) == (2, 4)
        for row in rows:
            job = row.status["job"].removeprefix("Job/")
            await reader.client.delete(
                JOBS, job, namespace=reader.namespace, propagation="Background"
            )

        async def is_forgotten() -> bool:
            return standings.remembered == 0

        await eventually(is_forgotten)


async def test_every_resource_answers() -> None:
    async with waiting("one", "two") as reader:
        mine = f"/namespaces/{reader.namespace}"
        listed = await reader.read(f"{mine}/standings")
        assert (listed["kind"], listed["metadata"]["leading"]) == ("StandingList", True)
        rows = {row["status"]["job"]: row["status"] for row in listed["items"]}
        assert sorted(row["position"] for row in rows.values()) == [1, 2]
        assert rows["Job/one"]["code"] == "ExceedsMaxQuota"
        [name, _] = sorted(row["metadata"]["name"] for row in listed["items"])
        assert (await reader.read(f"{mine}/standings/{name}"))["status"] == rows["Job/one"]
        table = await reader.read("/standings", headers={"Accept": TABLE})
        wide = {column["name"]: column["priority"] for column in table["columnDefinitions"]}
        assert (wide["Phase"], wide["Why"]) == (0, 1)
        cells = table["rows"][0]["cells"][:5]
        assert cells == [name, "Job/one", "Queued", "", rows["Job/one"]["position"]]

        story = (await reader.read(f"{mine}/stories/{name}"))["status"]
        assert story["standing"] == rows["Job/one"]
        assert [span["stage"] for span in story["spans"]] == ["Queued"]
        place = story["explanation"]["positionInClusterQueue"]
        assert place + 1 == rows["Job/one"]["position"]
        for path in (f"{mine}/lines/a", f"/lines/{reader.asker.cluster_queue}"):
            line = await reader.read(path)
            assert [item["position"] for item in line["items"]] == [1, 2]
            assert line["status"]["pending"] == 2
        quotas = await reader.rows("/quotas")
        row = quotas[f"clusterqueue:{reader.asker.cluster_queue}"]
        assert (row["pending"], row["quotas"][0]["nominal"]) == (2, 0)
        total = (await reader.read("/totals/fleet"))["status"]
        assert (total["waiting"], total["oldest"]) == (
            2,
            min(row["created"] for row in rows.values()),
        )
        assert (await reader.rows("/shares"))[reader.asker.cluster_queue]["waiting"] == 2
        assert await reader.rows("/workers") == {}
        for plural, resource in BY_PLURAL.items():
            if "list" in resource.verbs:
                for item in (await reader.read(f"/{plural}"))["items"]:
                    assert tuple(item["status"]) == resource.columns


async def test_lists_are_filtered_sorted_cut_and_known() -> None:
    async with waiting("one", "two", "three") as reader:
        path = f"/namespaces/{reader.namespace}/standings"
        assert set(await reader.rows(path, search="t")) == {"two", "three"}
        chosen = "phase=Queued,localQueue!=b"
        assert len(await reader.rows(path, fieldSelector=chosen)) == 3
        assert await reader.rows(path, fieldSelector="phase=Running") == {}
        assert list(await reader.rows(path, sortBy="-created"))[-1] == "one"
        seen, rest = [], ""
        while True:
            query = {"continue": rest} if rest else {}
            page = await reader.read(path, limit=1, **query)
            seen += [row["status"]["job"] for row in page["items"]]
            rest = page["metadata"].get("continue", "")
            if not rest:
                break
        assert sorted(seen) == ["Job/one", "Job/three", "Job/two"]
        async with await reader.ask(path) as answer:
            mark = answer.headers["ETag"]
        async with await reader.ask(path, headers={"If-None-Match": mark}) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
        for wrong in ({"limit": "x"}, {"sortBy": "x"}, {"continue": "x"}, {"fieldSelector": "x=1"}):
            async with await reader.ask(path, **wrong) as answer:
                [name] = wrong
                assert answer.status == 400
                assert name in (await answer.json())["message"]


async def test_rows_lines_and_stories_say_why_in_the_same_words() -> None:
    async with waiting("one", "two") as reader:
        rows = await reader.rows(f"/namespaces/{reader.namespace}/standings")
        line = await reader.read(f"/lines/{reader.asker.cluster_queue}")
        whys = {row["workload"].rpartition("/")[2]: row["why"] for row in line["items"]}
        for name, why in whys.items():
            story = (await reader.read(f"/namespaces/{reader.namespace}/stories/{name}"))["status"]
            job = story["standing"]["job"].removeprefix("Job/")
            told = {story["explanation"]["why"], story["standing"]["why"], rows[job]["why"], why}
            assert told == {
                "1 cpu are more than the ClusterQueue can ever use in flavor any, which is 0"
            }


async def test_what_happened_is_a_story_and_a_change() -> None:
    async with waiting("one") as reader:
        await reader.set_quota(1)
        path = f"/namespaces/{reader.namespace}/standings"

        async def is_admitted() -> bool:
            return (await reader.rows(path))["one"]["phase"] == "Starting"

        await eventually(is_admitted)
        [item] = (await reader.read(path))["items"]
        assert (item["status"]["flavors"], item["status"]["position"]) == (["any"], None)
        assert item["status"]["start"] is None
        where = f"/namespaces/{reader.namespace}/stories/{item['metadata']['name']}"
        spans = (await reader.read(where))["status"]["spans"]
        assert (spans[0]["stage"], spans[-1]["stage"]) == ("Queued", "Starting")
        assert spans[-1]["to"] is None
        newest = (await reader.read("/changes"))["items"][0]["status"]
        assert (newest["object"], newest["action"]) == (reader.asker.cluster_queue, "changed")
        [field] = newest["fields"]
        assert field["path"].endswith("nominalQuota")
        assert (field["from"], field["to"]) == ("0", "1")


# ---------------------------------------------------------------- rights


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def binding(user: str, role_name: str, namespace: str = "") -> dict[str, Any]:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    metadata = {"name": f"{user}-{role_name}", **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role_name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


def roles_of(label: str, name: str) -> list[str]:
    """The shipped roles that a label aggregates."""
    found = yaml.safe_load_all(ROLES.read_text())
    return [r["metadata"]["name"] for r in found if r["metadata"]["labels"].get(label) == name]


async def test_no_route_shows_more_than_the_rights_behind_it() -> None:
    """Each route for each reader: 200 exactly if all its rights are given (S-42)."""
    async with waiting("one") as reader:
        nobody, own, user, admin, path_only = map(unique, ("no", "own", "user", "admin", "path"))
        queues_only, no_jobs = unique("queues"), unique("no-jobs")
        bindings = [
            *(
                binding(who, name, namespace)
                for who, label, namespace in (
                    (own, f"{RBAC}/aggregate-to-view", reader.namespace),
                    (user, "rbac.kueue.x-k8s.io/batch-user", ""),
                    (admin, "rbac.kueue.x-k8s.io/batch-admin", ""),
                )
                for name in roles_of(label, "true")
            ),
            role(
                path_only,
                {"apiGroups": ["fleet.multiqueue.dev"], "resources": ["*"], "verbs": ["*"]},
            ),
            binding(path_only, path_only),
            binding(queues_only, path_only),
            role(
                queues_only,
                {
                    "apiGroups": ["kueue.x-k8s.io"],
                    "resources": ["clusterqueues", "cohorts"],
                    "verbs": ["list"],
                },
            ),
            binding(queues_only, queues_only),
            binding(no_jobs, path_only),
            binding(no_jobs, queues_only),
            role(
                no_jobs,
                {
                    "apiGroups": ["kueue.x-k8s.io"],
                    "resources": ["localqueues"],
                    "verbs": ["list"],
                },
            ),
            binding(no_jobs, no_jobs),
        ]
        await apply_all(reader.client, bindings)
        await apply_all(reader.client, [worker_reader(admin), binding(admin, f"{admin}-workers")])
        [item] = (await reader.read("/standings"))["items"]
        got, want = {}, {}
        for route in list_routes(reader, item["metadata"]["name"]):
            for who in (nobody, own, user, admin, path_only, queues_only, no_jobs):
                allowed = await is_allowed(reader, who, route)
                async with await reader.ask(route, user=who) as answer:
                    got[route, who] = answer.status
                want[route, who] = 200 if allowed else 403
        assert got == want
        shown = {who for (route, who), status in got.items() if status == 200}
        assert shown == {
            own,
            user,
            admin,
            path_only,
            queues_only,
            no_jobs,
        }  # path_only sees the totals
        assert {r for (r, who), status in got.items() if who == path_only and status == 200} == {
            "/totals",
            "/totals/fleet",
            "/calibrations",
        }
        assert all(status == 200 for (_, who), status in got.items() if who == admin)
        # Shares and changes name LocalQueues, and changes who acted on jobs, of all namespaces.
        assert got["/shares", no_jobs] == 200
        assert got["/changes", no_jobs] == 403
        assert {r for (r, who), status in got.items() if who == queues_only and status == 200} == {
            "/quotas",
            "/totals",
            "/totals/fleet",
            "/calibrations",
        }


def worker_reader(user: str) -> dict[str, Any]:
    group = "kueue.x-k8s.io"
    rule = {"apiGroups": [group], "resources": ["multikueueclusters"], "verbs": ["list"]}
    return role(f"{user}-workers", rule)


def list_routes(reader: Reader, name: str) -> list[str]:
    mine = f"/namespaces/{reader.namespace}"
    return [
        "/standings",
        f"{mine}/standings",
        f"{mine}/standings/{name}",
        f"{mine}/stories/{name}",
        f"{mine}/lines/a",
        f"/lines/{reader.asker.cluster_queue}",
        *(f"/{p}" for p in ("quotas", "workers", "totals", "totals/fleet", "shares", "changes")),
        "/calibrations",
    ]


async def is_allowed(reader: Reader, user: str, route: str) -> bool:
    action = action_of("GET", FLEET + route)
    rights = [action, *native_actions(BY_PLURAL[action.resource], action.namespace, action.name)]
    return all([await has_right(reader, user, right) for right in rights])


async def has_right(reader: Reader, user: str, action: ApiAction) -> bool:
    groups = ("system:authenticated",)
    spec = review_spec(AuthenticatedUser(name=user, groups=groups), action)
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = await reader.client.create(SUBJECT_ACCESS_REVIEWS, review)
    return bool(answer["status"]["allowed"])


async def test_jobs_of_others_in_a_line_have_no_name() -> None:
    async with waiting("one") as reader:
        ann = unique("ann")
        group = "visibility.kueue.x-k8s.io"
        pending = {
            "apiGroups": [group],
            "resources": ["clusterqueues/pendingworkloads"],
            "verbs": ["get"],
        }
        lines = {"apiGroups": ["fleet.multiqueue.dev"], "resources": ["lines"], "verbs": ["get"]}
        await apply_all(reader.client, [role(ann, pending, lines), binding(ann, ann)])
        path = f"/lines/{reader.asker.cluster_queue}"
        line = await reader.read(path, user=ann)
        assert reader.namespace not in orjson.dumps(line["items"]).decode()
        [item] = line["items"]
        assert (item["workload"], item["position"], item["gpus"]) == (None, 1, 0)


# ---------------------------------------------------------------- streams


@asynccontextmanager
async def frames(
    reader: Reader, path: str, **rest: Any
) -> AsyncIterator[Callable[[str], Awaitable[Any]]]:
    """Open a feed; the function returns the next frame of a kind."""
    async with await reader.ask(path, **{"watch": "1", "headers": STREAM, **rest}) as answer:
        assert answer.status == 200, await answer.read()
        assert answer.headers["Content-Type"] == "text/event-stream"

        async def next_of(kind: str) -> Any:
            async with asyncio.timeout(20):
                while True:
                    text = (await answer.content.readuntil(b"\n\n")).decode()
                    told = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
                    if told.get("event") == kind:
                        return {"id": told.get("id"), **orjson.loads(told["data"])}

        yield next_of


def by_key(frame: Any, *columns: str, known: list[str]) -> dict[str, list[Any]]:
    return {row[0]: [row[known.index(name)] for name in columns] for row in frame["rows"]}


async def test_the_feed_sends_rows_then_changes_and_resumes() -> None:
    async with waiting("one", "two") as reader:
        topic = f"standings:{reader.namespace}"
        query = {"topics": f"{topic},totals", "interval": "100ms"}
        async with frames(reader, "/feeds", **query) as next_of:
            hello = await next_of("hello")
            assert (hello["topics"], hello["refused"]) == ([topic, "totals"], [])
            snapshot = await next_of("snapshot")
            columns = snapshot["columns"]
            found = by_key(snapshot, "job", "phase", known=columns)
            assert sorted(found.values()) == [["Job/one", "Queued"], ["Job/two", "Queued"]]
            assert (await next_of("snapshot"))["topic"] == "totals"

            await reader.set_quota(1)
            phases: dict[str, list[Any]] = {}
            last = ""
            while ["Starting"] not in phases.values():
                change = await next_of("change")
                if change["topic"] == topic:
                    phases |= by_key(change, "phase", known=columns)
                    last = change["id"]

        await delete_job(reader, "two")
        key = next(key for key, (job, _) in found.items() if job == "Job/two")
        name = key.partition("/")[2]
        await until_gone(reader.client, WORKLOADS, name, reader.namespace)
        headers = {**STREAM, "Last-Event-ID": last}
        async with frames(reader, "/feeds", headers=headers, **query) as next_of:
            assert (await next_of("hello"))["resumed"] is True
            gone: list[str] = []
            while key not in gone:
                gone += (await next_of("change"))["gone"]
        headers = {**STREAM, "Last-Event-ID": "00000000.1"}
        async with frames(reader, "/feeds", headers=headers, **query) as next_of:
            assert (await next_of("hello"))["resumed"] is False
            assert len((await next_of("snapshot"))["rows"]) == 1


async def delete_job(reader: Reader, name: str) -> None:
    """Delete a job with its Workload, as kubectl does."""
    await reader.client.delete(JOBS, name, namespace=reader.namespace, propagation="Background")


async def until_gone(client: KubeClient, resource: Resource, name: str, namespace: str) -> None:
    async def is_gone() -> bool:
        listed = await client.list(resource, namespace=namespace)
        return all(each["metadata"]["name"] != name for each in listed.items)

    await eventually(is_gone)


async def test_the_feed_has_documents_and_refuses_by_topic() -> None:
    async with waiting("one") as reader:
        [item] = (await reader.read("/standings"))["items"]
        name, ann = item["metadata"]["name"], unique("ann")
        for each in roles_of(f"{RBAC}/aggregate-to-view", "true"):
            await apply_all(reader.client, [binding(ann, each, reader.namespace)])
        line, story = f"line:{reader.namespace}/a", f"story:{reader.namespace}/{name}"
        topics = f"{line},{story},quotas,standings:default"
        path = f"/namespaces/{reader.namespace}/feeds"
        async with frames(reader, path, user=ann, topics=topics, interval="100ms") as next_of:
            hello = await next_of("hello")
            assert hello["topics"] == [line, story]
            assert {each["topic"]: each["code"] for each in hello["refused"]} == {
                "quotas": 403,
                "standings:default": 403,
            }
            [first] = (await next_of("snapshot"))["rows"]
            assert first[:2] == ["1", f"{reader.namespace}/{name}"]
            told = await next_of("snapshot")
            assert told["rows"][0][told["columns"].index("standing")]["job"] == "Job/one"
            await submit(reader.asker, reader.client, ("two", "a"))
            change = await next_of("change")
            assert (change["topic"], len(change["rows"])) == (line, 2)
        for wrong in ({"topics": "x"}, {"topics": ""}, {"topics": "totals", "interval": "1ms"}):
            async with await reader.ask("/feeds", watch="1", **wrong) as answer:
                assert answer.status == 400


async def test_a_watch_goes_on_where_the_list_ended() -> None:
    async with waiting("one") as reader:
        path = f"/namespaces/{reader.namespace}/standings"
        version = (await reader.read(path))["metadata"]["resourceVersion"]
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "20"}
        async with await reader.ask(path, **query) as answer, asyncio.timeout(20):
            await reader.set_quota(1)
            phase = ""
            while phase != "Starting":
                event = orjson.loads(await answer.content.readline())
                assert event["type"] == "MODIFIED"
                phase = event["object"]["status"]["phase"]
            await delete_job(reader, "one")
            while event["type"] != "DELETED":
                event = orjson.loads(await answer.content.readline())
        query["resourceVersion"] = "1"
        async with await reader.ask(path, **query) as answer:
            event = orjson.loads(await answer.content.readline())
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def read_standings(asker: Asker) -> int:
    url, context = asker.credentials.server + FLEET, asker.credentials.ssl_context
    headers = {"Authorization": await asker.credentials.authorization() or ""}
    async with asker.session.get(f"{url}/standings", headers=headers, ssl=context) as answer:
        return len((await answer.json())["items"])


@pytest.mark.kubectl
async def test_kubectl_prints_standings_and_follows_them(tmp_path: Path) -> None:
    async with waiting("one") as reader:
        kubectl = Kubectl(await write_kubeconfig(reader, tmp_path), reader.namespace, tmp_path)
        out = await kubectl.until("get", "standings", "--all-namespaces")
        header, row = out.splitlines()
        names = ["NAMESPACE", "NAME", "JOB", "PHASE", "WORKER", "POSITION", "START", "GPUS", "AGE"]
        assert header.split() == names
        assert row.split()[0] == reader.namespace
        assert row.split()[2:6] == ["Job/one", "Queued", "1", "unknown"]
        assert re.fullmatch(r"[0-9]+s", row.split()[-1])
        wide = await kubectl("get", "standings", "--output=wide")
        assert wide.splitlines()[0].split() == [*names[1:], "QUEUE", "TEAM", "PRIORITY", "WHY"]
        assert "more than the ClusterQueue can ever use" in wide
        name = row.split()[1]
        printed = await kubectl("get", "standing", name, "--output=jsonpath={.status.phase}")
        assert printed == "Queued"
        for plural in ("quotas", "totals", "shares", "changes"):
            assert await kubectl("get", plural)

        process = await kubectl.start("get", "standings", "--watch")
        try:
            assert process.stdout is not None
            async with asyncio.timeout(20):
                while b"Queued" not in await process.stdout.readline():
                    pass
                await reader.set_quota(1)
                while b"Starting" not in await process.stdout.readline():
                    pass
        finally:
            process.terminate()
            await process.communicate()


async def write_kubeconfig(reader: Reader, folder: Path) -> Path:
    credentials = reader.asker.credentials
    _, _, token = (await credentials.authorization() or "").partition(" ")
    cluster = {"server": credentials.server, "insecure-skip-tls-verify": True}
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


async def test_with_nobody_reading_nothing_is_computed() -> None:
    async with managed() as (asker, [manager]), KubeClient(asker.credentials) as client:
        assert manager.visibility is not None
        await manager.visibility.registered.wait()
        api = manager.visibility.fleet
        await submit(asker, client, ("one", "a"), ("two", "a"))

        async def are_known() -> bool:
            return len(list(api.standings.list_keys())) == 2

        await eventually(are_known)
        version = api.journal.version
        await client.delete(LOCAL_QUEUES, "a", namespace=asker.namespace)

        async def has_changed() -> bool:
            return api.journal.version > version

        await eventually(has_changed)
        assert api.built_rows == 0
        assert await read_standings(asker) == 2
        assert api.built_rows == 2
