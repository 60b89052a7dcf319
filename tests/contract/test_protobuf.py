"""Bodies in protobuf, as kubectl's generators and Go clients send them."""

import pytest

from tests.contract.client import Answer, Api, config_map, expect, job, pod
from tests.unit.embedded.server.protobuf_encoder import MAGIC, chunk, envelope, text

PROTOBUF = "application/vnd.kubernetes.protobuf"


async def post(api: Api, path: str, body: bytes) -> Answer:
    """A create that prefers protobuf, but reads JSON: as kubectl."""
    return await api.send(
        "POST", path, body, content_type=PROTOBUF, headers={"Accept": "application/json"}
    )


async def test_a_create_stores_what_json_would(api: Api, config_maps: str) -> None:
    body = envelope(config_map("a", {"x": "ü"}, labels={"b": "c"}))
    created = expect(await post(api, config_maps, body), 201)
    assert created["data"] == {"x": "ü"}
    assert created["metadata"]["labels"] == {"b": "c"}
    assert (await api.get(f"{config_maps}/a"))["metadata"]["uid"] == created["metadata"]["uid"]


async def test_defaults_and_zeros_stay_apart(api: Api, jobs: str) -> None:
    body = envelope(job("a", backoffLimit=0, suspend=True))
    spec = expect(await post(api, jobs, body), 201)["spec"]
    assert (spec["backoffLimit"], spec["parallelism"], spec["suspend"]) == (0, 1, True)
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Always"


async def test_quantities_bytes_and_ports(api: Api, namespace: str, pods: str) -> None:
    body = pod("a")
    container = body["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1500m"}}
    container["readinessProbe"] = {"httpGet": {"port": "web", "path": "/"}}
    body["spec"]["volumes"] = [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]
    got = expect(await post(api, pods, envelope(body)), 201)["spec"]
    assert got["containers"][0]["resources"]["requests"] == {"cpu": "1500m"}
    assert got["containers"][0]["readinessProbe"]["httpGet"]["port"] == "web"
    assert {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}} in got["volumes"]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    secret_body = envelope({**secret, "data": {"k": "AP8="}})
    path = f"/api/v1/namespaces/{namespace}/secrets"
    assert expect(await post(api, path, secret_body), 201)["data"] == {"k": "AP8="}


async def test_an_update(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a", {"x": "1"}))
    changed = envelope(config_map("a", {"x": "2"}))
    answer = await api.send(
        "PUT",
        f"{config_maps}/a",
        changed,
        content_type=PROTOBUF,
        headers={"Accept": "application/json"},
    )
    assert expect(answer, 200)["data"] == {"x": "2"}


async def test_delete_options(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    wrong = {"preconditions": {"uid": "other"}}
    headers = {"Accept": "application/json"}
    for options, status in ((wrong, 409), ({"propagationPolicy": "Background"}, 200)):
        body = envelope(options, kind="DeleteOptions", api_version="v1")
        answer = await api.send(
            "DELETE", f"{config_maps}/a", body, content_type=PROTOBUF, headers=headers
        )
        assert answer.status == status, answer
    assert (await api.send("GET", f"{config_maps}/a")).status == 404


async def test_a_review(api: Api) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = expect(await post(api, path, envelope(review)), 201)
    assert answer["status"]["userInfo"]["username"]


async def test_wrong_values_are_refused_by_field(api: Api, config_maps: str) -> None:
    answer = await post(api, config_maps, envelope(config_map("Not_A_Name")))
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "metadata.name"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        MAGIC,
        MAGIC + b"\xff" * 20,
        MAGIC + chunk(1, text(1, "v1") + text(2, "ConfigMap")) + chunk(2, b"\x0a\x7f"),
        envelope({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
    ],
    ids=["nothing", "json", "no envelope", "broken envelope", "broken message", "another kind"],
)
async def test_malformed_bodies_are_bad_requests(api: Api, config_maps: str, body: bytes) -> None:
    answer = await post(api, config_maps, body)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


async def test_who_reads_json_too_is_answered(api: Api, config_maps: str) -> None:
    """A real server answers in protobuf, the embedded one in JSON."""
    wanted = PROTOBUF if not api.cluster.embedded else "application/json"
    async with api.session.get(
        api.cluster.url + config_maps,
        headers={**api.cluster.headers, "Accept": f"{PROTOBUF},application/json"},
        ssl=api.cluster.ssl if api.cluster.ssl is not None else True,
    ) as response:
        assert (response.status, response.content_type) == (200, wanted)
