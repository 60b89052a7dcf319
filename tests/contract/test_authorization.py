"""Who may do what: roles, bindings, refusals, acting as others, and the reviews about it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.contract.client import (
    MERGE,
    PATIENCE_SECONDS,
    Answer,
    Api,
    Cluster,
    config_map,
    expect,
    unique,
)

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
READ = ["get", "list", "watch"]

As = Callable[..., Api]


@pytest.fixture
def user() -> str:
    """Somebody of whom no server has heard."""
    return unique("jane")


@pytest.fixture
def acting(api: Api) -> As:
    """A client that acts as somebody else."""

    def act(name: str, **headers: str) -> Api:
        asked = {"Impersonate-User": name, **headers}
        cluster = Cluster(
            api.cluster.url,
            {**api.cluster.headers, **asked},
            api.cluster.ssl,
            embedded=api.cluster.embedded,
        )
        return Api(cluster, api.session)

    return act


@pytest.fixture
async def cluster_role(api: Api) -> AsyncIterator[Callable[..., Any]]:
    """Makes cluster roles that end with the test."""
    made = []

    async def make(*rules: dict[str, Any], **more: Any) -> str:
        name = unique("role")
        metadata = {"name": name, **more.pop("metadata", {})}
        await api.create(f"{RBAC}/clusterroles", {"metadata": metadata, "rules": rules, **more})
        made.append(name)
        return name

    yield make
    for name in made:
        await api.send("DELETE", f"{RBAC}/clusterroles/{name}")


@pytest.fixture
async def bind(api: Api) -> AsyncIterator[Callable[..., Any]]:
    """Binds cluster roles for the whole cluster, until the test ends."""
    made = []

    async def make(role: str, *subjects: dict[str, Any]) -> str:
        name = unique("binding")
        await api.create(f"{RBAC}/clusterrolebindings", binding(name, role, *subjects))
        made.append(name)
        return name

    yield make
    for name in made:
        await api.send("DELETE", f"{RBAC}/clusterrolebindings/{name}")


def rule(verbs: list[str], resources: list[str], group: str = "", **more: Any) -> dict[str, Any]:
    return {"verbs": verbs, "apiGroups": [group], "resources": resources, **more}


def person(name: str) -> dict[str, Any]:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def binding(
    name: str, role: str, *subjects: dict[str, Any], kind: str = "ClusterRole"
) -> dict[str, Any]:
    reference = {"kind": kind, "apiGroup": GROUP, "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}


async def until(ask: Callable[[], Any], status: int) -> Answer:
    """Ask again until the server has heard of a role: real ones take a moment."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while (answer := await ask()).status != status:
        assert asyncio.get_running_loop().time() < deadline, answer
        await asyncio.sleep(0.02)
    assert isinstance(answer, Answer)
    return answer


async def review(api: Api, who: str, **resource: str) -> dict[str, Any]:
    spec = {"user": who, "resourceAttributes": resource}
    body = await api.create(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
    status: dict[str, Any] = body["status"]
    return status


async def until_allowed(api: Api, who: str, **resource: str) -> dict[str, Any]:
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not (status := await review(api, who, **resource))["allowed"]:
        assert asyncio.get_running_loop().time() < deadline, status
        await asyncio.sleep(0.02)
    return status


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("GET", "/api/v1/pods", 'list resource "pods" in API group "" at the cluster scope'),
        ("GET", "/api/v1/namespaces/n/pods", 'list resource "pods" {c} {n}'),
        ("GET", "/api/v1/namespaces/n/pods?watch=1", 'watch resource "pods" {c} {n}'),
        ("GET", "/api/v1/namespaces/n", 'get resource "namespaces" {c} {n}'),
        ("GET", "/api/v1/namespaces/n/pods/x/log", 'get resource "pods/log" {c} {n}'),
        ("POST", "/apis/batch/v1/namespaces/n/jobs", 'create resource "jobs" {b} {n}'),
        ("PUT", "/apis/batch/v1/namespaces/n/jobs/x", 'update resource "jobs" {b} {n}'),
        ("PATCH", "/apis/batch/v1/namespaces/n/jobs/x/status",
         'patch resource "jobs/status" {b} {n}'),
        ("DELETE", "/api/v1/namespaces/n/pods/x", 'delete resource "pods" {c} {n}'),
        ("DELETE", "/api/v1/namespaces/n/pods", 'deletecollection resource "pods" {c} {n}'),
        ("GET", "/apis/none.example.com/v1/things",
         'list resource "things" in API group "none.example.com" at the cluster scope'),
        ("GET", "/metrics", 'get path "/metrics"'),
        ("PUT", "/nonsense", 'put path "/nonsense"'),
    ],
)  # fmt: skip
async def test_a_refusal_says_who_and_what(
    acting: As, user: str, method: str, path: str, want: str
) -> None:
    answer = await acting(user).send(method, path)
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    words = {"{n}": 'in the namespace "n"', "{b}": 'in API group "batch"', "{c}": 'in API group ""'}
    for short, long in words.items():
        want = want.replace(short, long)
    assert answer.body["message"].endswith(f'forbidden: User "{user}" cannot {want}')


async def test_a_refusal_names_the_object(acting: As, user: str) -> None:
    jobs = "/apis/batch/v1/namespaces/n/jobs"
    by_path = (await acting(user).send("DELETE", f"{jobs}/x")).body
    by_selector = await acting(user).send("GET", jobs, fieldSelector="metadata.name=x")
    details = {"name": "x", "group": "batch", "kind": "jobs"}
    assert by_path["details"] == by_selector.body["details"] == details
    assert by_path["message"].startswith('jobs.batch "x" is forbidden: ')
    assert by_selector.body["message"].startswith('jobs.batch "x" is forbidden: ')


async def test_everybody_may_discover_but_strangers_may_not(
    acting: As, anonymous: Api, user: str
) -> None:
    for path in ("/api", "/apis", "/apis/batch/v1", "/openapi/v3", "/version", "/healthz"):
        assert (await acting(user).send("GET", path)).status == 200
    answer = await anonymous.send("GET", "/api")
    assert answer.status == 403
    assert answer.body["message"] == ('forbidden: User "system:anonymous" cannot get path "/api"')


# ------------------------------------------------------------------ roles and bindings


async def test_a_binding_in_a_namespace_grants_there_only(
    api: Api, acting: As, cluster_role: Any, namespace: str, config_maps: str, user: str
) -> None:
    role = await cluster_role(rule(["get", "create"], ["configmaps"]))
    path = f"{RBAC}/namespaces/{namespace}/rolebindings"
    await api.create(path, binding("b", role, person(user)))
    jane = acting(user)
    await until(lambda: jane.send("POST", config_maps, config_map("a")), 201)
    await jane.get(f"{config_maps}/a")
    assert (await jane.send("GET", config_maps)).status == 403
    assert (await jane.send("DELETE", f"{config_maps}/a")).status == 403
    assert (await jane.send("GET", "/api/v1/namespaces/default/configmaps/a")).status == 403
    await api.delete(f"{path}/b")
    await until(lambda: jane.send("GET", f"{config_maps}/a"), 403)


async def test_a_role_may_be_bound_to_a_group(
    api: Api, acting: As, namespace: str, config_maps: str, user: str
) -> None:
    roles = f"{RBAC}/namespaces/{namespace}"
    await api.create(f"{roles}/roles", {"metadata": {"name": "r"}, "rules": [rule(READ, ["*"])]})
    group = {"kind": "Group", "apiGroup": GROUP, "name": f"{user}s"}
    await api.create(f"{roles}/rolebindings", binding("b", "r", group, kind="Role"))
    member = acting(user, **{"Impersonate-Group": f"{user}s"})
    await until(lambda: member.send("GET", config_maps), 200)
    assert (await acting(user).send("GET", config_maps)).status == 403


@pytest.mark.parametrize(
    ("granted", "allowed", "refused"),
    [
        (rule(["get"], ["pods"]), ("get", "pods", ""), ("get", "pods", "log")),
        (rule(["get"], ["pods/log"]), ("get", "pods", "log"), ("get", "pods", "")),
        (rule(["get"], ["*/scale"]), ("get", "pods", "scale"), ("get", "pods", "status")),
        (rule(["get"], ["*"]), ("get", "pods", "log"), ("list", "pods", "")),
        (rule(["*"], ["pods"]), ("anything", "pods", ""), ("get", "secrets", "")),
    ],
    ids=["a resource", "a subresource", "one of any resource", "all resources", "all verbs"],
)
async def test_rules_name_resources_and_subresources(
    api: Api, cluster_role: Any, bind: Any, user: str, granted: Any, allowed: Any, refused: Any
) -> None:
    name = await bind(await cluster_role(granted), person(user))
    names = ("verb", "resource", "subresource")
    status = await until_allowed(api, user, **dict(zip(names, allowed, strict=True)))
    assert status["reason"].startswith(f'RBAC: allowed by ClusterRoleBinding "{name}" of ')
    assert not (await review(api, user, **dict(zip(names, refused, strict=True))))["allowed"]


async def test_rules_name_objects(
    api: Api, acting: As, cluster_role: Any, bind: Any, config_maps: str, user: str
) -> None:
    granted = rule(["get", "list", "create"], ["configmaps"], resourceNames=["a"])
    await bind(await cluster_role(granted), person(user))
    for name in "ab":
        await api.create(config_maps, config_map(name))
    jane = acting(user)
    await until(lambda: jane.send("GET", f"{config_maps}/a"), 200)
    assert (await jane.send("GET", f"{config_maps}/b")).status == 403
    assert (await jane.send("GET", config_maps)).status == 403
    assert await jane.names(config_maps, fieldSelector="metadata.name=a") == ["a"]
    assert (await jane.send("POST", config_maps, config_map("a"))).status == 403


async def test_rules_name_paths(acting: As, cluster_role: Any, bind: Any, user: str) -> None:
    paths = {"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*"]}
    await bind(await cluster_role(paths), person(user))
    jane = acting(user)
    await until(lambda: jane.send("GET", "/a"), 404)
    assert (await jane.send("GET", "/b/c")).status == 404
    for method, path in (("GET", "/a/b"), ("GET", "/b"), ("POST", "/a")):
        assert (await jane.send(method, path)).status == 403


async def test_who_may_apply_changes_may_not_create(
    api: Api, acting: As, cluster_role: Any, bind: Any, config_maps: str, user: str
) -> None:
    await bind(await cluster_role(rule(["get", "patch"], ["configmaps"])), person(user))
    jane = acting(user)
    await until(lambda: jane.send("GET", f"{config_maps}/a"), 404)
    body = {**config_map("a", {"x": "y"})}
    query = {"fieldManager": "me", "force": "true"}
    apply = "application/apply-patch+yaml"
    answer = await jane.send("PATCH", f"{config_maps}/a", body, content_type=apply, **query)
    assert answer.status == 403
    assert f'User "{user}" cannot create resource "configmaps"' in answer.body["message"]
    await api.create(config_maps, config_map("a"))
    answer = await jane.send("PATCH", f"{config_maps}/a", body, content_type=apply, **query)
    assert answer.status == 200


async def test_longer_paths_are_judged_as_what_they_begin_with(acting: As, user: str) -> None:
    jane = acting(user)
    for path in ("/api/v1/namespaces/n/pods/x/log/and/more", "/apis/batch/v1/jobs/x/y/z"):
        answer = await jane.send("GET", path)
        assert answer.status == 403
        assert "cannot get resource" in answer.body["message"]


async def test_a_missing_role_is_told(api: Api, acting: As, bind: Any, user: str) -> None:
    role = unique("nobody")
    await bind(role, person(user))
    path, tail = "/api/v1/pods", f': RBAC: clusterrole.{GROUP} "{role}" not found'
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not (answer := await acting(user).send("GET", path)).body["message"].endswith(tail):
        assert asyncio.get_running_loop().time() < deadline, answer
        await asyncio.sleep(0.02)
    status = await review(api, user, verb="get", resource="pods")
    assert status == {"allowed": False, "reason": tail.removeprefix(": ")}


async def test_an_aggregated_role_collects_rules(
    api: Api, cluster_role: Any, bind: Any, user: str
) -> None:
    label = unique("collect")
    selector = {"matchLabels": {label: "yes"}}
    collector = await cluster_role(aggregationRule={"clusterRoleSelectors": [selector]})
    granted = rule(["get"], ["secrets"])
    part = await cluster_role(granted, metadata={"labels": {label: "yes"}})
    path = f"{RBAC}/clusterroles/{collector}"
    await api.until(path, lambda answer: answer.body["rules"] == [granted])
    await bind(collector, person(user))
    await until_allowed(api, user, verb="get", resource="secrets")
    await api.delete(f"{RBAC}/clusterroles/{part}")
    await api.until(path, lambda answer: not answer.body["rules"])


async def test_an_aggregated_role_loses_the_rules_of_a_role_that_loses_its_label(
    api: Api, cluster_role: Any
) -> None:
    label = unique("collect")
    selector = {"matchLabels": {label: "yes"}}
    collector = await cluster_role(aggregationRule={"clusterRoleSelectors": [selector]})
    granted = rule(["get"], ["secrets"])
    part = await cluster_role(granted, metadata={"labels": {label: "yes"}})
    path = f"{RBAC}/clusterroles/{collector}"
    await api.until(path, lambda answer: answer.body["rules"] == [granted])
    body = {"metadata": {"labels": {label: None}}}
    await api.send("PATCH", f"{RBAC}/clusterroles/{part}", body, content_type=MERGE)
    await api.until(path, lambda answer: not answer.body["rules"])


@pytest.mark.parametrize("role", ["admin", "edit", "view"])
async def test_the_roles_for_people_are_there(api: Api, role: str) -> None:
    answer = await api.until(
        f"{RBAC}/clusterroles/{role}", lambda answer: bool(answer.body.get("rules"))
    )
    rules = answer.body["rules"]
    secrets = any("secrets" in each.get("resources", ()) for each in rules)
    roles = any("roles" in each.get("resources", ()) for each in rules)
    assert (secrets, roles) == (role != "view", role == "admin")


# ------------------------------------------------------------------ what roles look like


@pytest.mark.parametrize(
    ("plural", "body", "fields"),
    [
        ("clusterroles", {"rules": [{}]},
         ["rules[0].verbs", "rules[0].apiGroups", "rules[0].resources"]),
        ("clusterroles", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"],
                                     "resources": ["pods"]}]}, ["rules[0].nonResourceURLs"]),
        ("clusterroles", {"aggregationRule": {}}, ["aggregationRule.clusterRoleSelectors"]),
        ("clusterrolebindings", {"roleRef": {"kind": "Role", "name": "a"}}, ["roleRef.kind"]),
        ("clusterrolebindings", {"roleRef": {"kind": "ClusterRole", "name": "a"},
                                 "subjects": [{"kind": "User"}, {"kind": "Robot", "name": "a"},
                                              {"kind": "ServiceAccount", "name": "a"}]},
         ["subjects[0].name", "subjects[1].kind", "subjects[2].namespace"]),
    ],
    ids=["an empty rule", "paths and resources", "no selectors", "a role of no namespace",
         "wrong subjects"],
)  # fmt: skip
async def test_roles_and_bindings_are_checked(
    api: Api, plural: str, body: dict[str, Any], fields: list[str]
) -> None:
    named = {"metadata": {"name": unique("wrong")}, **body}
    answer = await api.send("POST", f"{RBAC}/{plural}", named)
    assert answer.status == 422
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == fields


async def test_a_binding_keeps_its_role(api: Api, cluster_role: Any, bind: Any) -> None:
    name = await bind(await cluster_role())
    path = f"{RBAC}/clusterrolebindings/{name}"
    body = await api.get(path)
    body["roleRef"]["name"] = "other"
    answer = await api.send("PUT", path, body)
    assert answer.status == 422
    assert answer.body["message"].endswith("cannot change roleRef")


# ------------------------------------------------------------------ acting as others


async def test_acting_as_others_has_to_be_allowed(
    api: Api, acting: As, cluster_role: Any, bind: Any, user: str, namespace: str
) -> None:
    """The administrator acts as a ServiceAccount; that one asks to act as somebody."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "robot"}})
    token = (await api.create(f"{accounts}/robot/token", {"spec": {}}))["status"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Impersonate-User": user}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = await api.send("POST", path, {}, headers=headers)
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    granted = rule(["impersonate"], ["users"], resourceNames=[user])
    robot = {"kind": "ServiceAccount", "name": "robot", "namespace": namespace}
    await bind(await cluster_role(granted), robot)
    answer = await until(lambda: api.send("POST", path, {}, headers=headers), 201)
    assert answer.body["status"]["userInfo"]["username"] == user
    more = {**headers, "Impersonate-Group": "system:masters"}
    assert (await api.send("POST", path, {}, headers=more)).status == 403


async def test_a_service_account_that_is_acted_as_has_its_groups(acting: As) -> None:
    robot = acting("system:serviceaccount:n:robot")
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = (await robot.create(path, {}))["status"]["userInfo"]
    groups = ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]
    assert info == {"username": "system:serviceaccount:n:robot", "groups": groups}


async def test_groups_without_a_user_are_a_mistake(api: Api) -> None:
    answer = await api.send("GET", "/api/v1/pods", headers={"Impersonate-Group": "g"})
    assert answer.status == 400
    assert answer.body["message"].endswith("without impersonating a user name")


# ------------------------------------------------------------------ reviews


async def test_what_may_i_do(acting: As, user: str) -> None:
    path = f"{REVIEWS}/selfsubjectaccessreviews"
    jane = acting(user)
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    assert (await jane.create(path, {"spec": spec}))["status"] == {"allowed": False}
    spec = {"nonResourceAttributes": {"verb": "get", "path": "/apis/batch"}}
    assert (await jane.create(path, {"spec": spec}))["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole '
        '"system:discovery" to Group "system:authenticated"',
    }


async def test_masters_may_do_everything(api: Api) -> None:
    spec = {"groups": ["system:masters"], "resourceAttributes": {"verb": "get", "resource": "x"}}
    body = await api.create(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
    assert body["status"] == {"allowed": True}


async def test_what_may_somebody_do_here(
    api: Api, cluster_role: Any, namespace: str, user: str
) -> None:
    role = await cluster_role(rule(["get"], ["pods"]))
    path = f"{RBAC}/namespaces/{namespace}/rolebindings"
    await api.create(path, binding("b", role, person(user)))
    status = await until_allowed(api, user, verb="get", resource="pods", namespace=namespace)
    assert status == {
        "allowed": True,
        "reason": f'RBAC: allowed by RoleBinding "b/{namespace}" of ClusterRole "{role}" '
        f'to User "{user}"',
    }


@pytest.mark.parametrize(
    ("plural", "spec", "field"),
    [
        ("selfsubjectaccessreviews", {}, "spec.resourceAttributes"),
        ("selfsubjectaccessreviews",
         {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/", "verb": "get"}},
         "spec.nonResourceAttributes"),
        ("subjectaccessreviews", {"resourceAttributes": {}}, "spec.user"),
    ],
    ids=["nothing", "both", "nobody"],
)  # fmt: skip
async def test_reviews_are_checked(api: Api, plural: str, spec: dict[str, Any], field: str) -> None:
    answer = await api.send("POST", f"{REVIEWS}/{plural}", {"spec": spec})
    assert answer.status == 422
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == [field]


async def test_all_that_i_may_do(
    acting: As, api: Api, cluster_role: Any, bind: Any, user: str
) -> None:
    granted = rule(["get"], ["pods"], resourceNames=["a"])
    await bind(await cluster_role(granted), person(user))
    await until_allowed(api, user, verb="get", resource="pods", name="a")
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    status = (await acting(user).create(path, {"spec": {"namespace": "default"}}))["status"]
    assert granted in status["resourceRules"]
    urls = {url for each in status["nonResourceRules"] for url in each["nonResourceURLs"]}
    assert {"/api", "/apis/*", "/version"} <= urls
    assert status["incomplete"] is False
    # `clusters verify` asks about a namespace that cannot exist: these rules hold in all of them.
    status = (await acting(user).create(path, {"spec": {"namespace": "-"}}))["status"]
    assert granted in status["resourceRules"]
    answer = await acting(user).send("POST", path, {"spec": {}})
    assert (answer.status, answer.body["message"]) == (400, "no namespace on request")


async def test_a_wrong_token_is_reviewed(api: Api) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    body = await api.create(path, {"spec": {"token": "wrong"}})
    assert body["status"] == {"user": {}, "error": "invalid bearer token"}
    answer = await api.send("POST", path, {"spec": {}})
    assert expect(answer, 400)["message"] == "token is required for TokenReview in authentication"
