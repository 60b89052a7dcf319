"""Create: what is stored, what the server adds, what it refuses."""

import pytest

from tests.contract.client import Api, config_map, expect, job


async def test_a_new_object_gets_uid_time_and_resource_version(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, config_map("a", {"x": "1"}))
    metadata = created["metadata"]
    assert created["data"] == {"x": "1"}
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert await api.get(f"{config_maps}/a") == created


async def test_what_only_the_server_may_set_is_ignored(api: Api, jobs: str) -> None:
    body = job("a")
    body["metadata"] |= {
        "uid": "mine",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }
    created = await api.create(jobs, {**body, "status": {"active": 3}})
    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["generation"] == 1
    assert created["metadata"]["creationTimestamp"] > "2001-01-02"
    assert "deletionTimestamp" not in created["metadata"]
    assert "active" not in created["status"]


async def test_a_taken_name_is_refused(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    status = expect(await api.send("POST", jobs, job("a")), 409)
    assert status["kind"] == "Status"
    assert status["reason"] == "AlreadyExists"
    assert status["message"] == 'jobs.batch "a" already exists'
    assert status["details"] == {"name": "a", "group": "batch", "kind": "jobs"}


async def test_mistakes_are_told_before_a_taken_name(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    wrong = expect(await api.send("POST", jobs, job("a", parallelism=-1)), 422)
    assert "spec.parallelism" in wrong["message"]


async def test_generate_name_adds_a_suffix(api: Api, config_maps: str) -> None:
    body = {"metadata": {"generateName": "made-"}}
    names = [(await api.create(config_maps, body))["metadata"]["name"] for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


async def test_a_name_is_required(api: Api, config_maps: str) -> None:
    status = expect(await api.send("POST", config_maps, {"metadata": {}}), 422)
    assert status["reason"] == "Invalid"
    assert "name or generateName is required" in status["message"]


async def test_a_malformed_name_is_refused_with_its_field(api: Api, config_maps: str) -> None:
    status = expect(await api.send("POST", config_maps, config_map("Not_Valid")), 422)
    assert status["message"].startswith('ConfigMap "Not_Valid" is invalid: metadata.name: Invalid')
    assert status["details"]["kind"] == "ConfigMap"
    assert status["details"]["causes"][0]["field"] == "metadata.name"
    assert status["details"]["causes"][0]["reason"] == "FieldValueInvalid"


async def test_content_needs_its_namespace(api: Api) -> None:
    path = "/api/v1/namespaces/not-there/configmaps"
    status = expect(await api.send("POST", path, config_map("a")), 404)
    assert status["message"] == 'namespaces "not-there" not found'
    assert status["reason"] == "NotFound"
    assert status["details"] == {"name": "not-there", "kind": "namespaces"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "Secret"}, "Secret"),
        ({"apiVersion": "v2"}, "v2"),
        ({"metadata": {"name": "a", "namespace": "elsewhere"}}, "namespace of the provided object"),
    ],
    ids=["another kind", "another version", "another namespace"],
)
async def test_a_body_that_does_not_belong_here_is_refused(
    api: Api, config_maps: str, change: dict, words: str
) -> None:
    status = expect(await api.send("POST", config_maps, {**config_map("a"), **change}), 400)
    assert status["reason"] == "BadRequest"
    assert words in status["message"]


async def test_a_resource_version_is_refused(api: Api, config_maps: str) -> None:
    answer = await api.send("POST", config_maps, config_map("a", resourceVersion="5"))
    assert answer.status >= 400
    assert "resourceVersion should not be set" in answer.body["message"]


async def test_malformed_json_is_a_bad_request(api: Api, config_maps: str) -> None:
    status = expect(await api.send("POST", config_maps, '{"metadata": '), 400)
    assert status["reason"] == "BadRequest"


async def test_yaml_bodies_are_understood(api: Api, config_maps: str) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: 'yes'}\n"
    answer = await api.send("POST", config_maps, text, content_type="application/yaml")
    assert expect(answer, 201)["data"] == {"x": "yes"}


async def test_unknown_body_formats_are_refused(api: Api, config_maps: str) -> None:
    answer = await api.send("POST", config_maps, b"<a/>", content_type="application/xml")
    assert answer.status == 415
    assert answer.body["reason"] == "UnsupportedMediaType"
    assert "application/json" in answer.body["message"]


async def test_dry_run_shows_the_outcome_and_stores_nothing(api: Api, jobs: str) -> None:
    shown = await api.create(jobs, job("a"), dryRun="All")
    assert shown["spec"]["backoffLimit"] == 6
    assert shown["metadata"]["uid"]
    assert (await api.send("GET", f"{jobs}/a")).status == 404


async def test_dry_run_still_sees_conflicts(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    assert (await api.send("POST", jobs, job("a"), dryRun="All")).status == 409


async def test_dry_run_knows_one_value(api: Api, jobs: str) -> None:
    assert (await api.send("POST", jobs, job("a"), dryRun="Some")).status in {400, 422}


async def test_unknown_fields_are_pruned_with_a_warning(api: Api, jobs: str) -> None:
    body = job("a")
    body["spec"]["nonsense"] = 1
    answer = await api.send("POST", jobs, body)
    assert "nonsense" not in expect(answer, 201)["spec"]
    assert answer.warnings == ['299 - "unknown field \\"spec.nonsense\\""']


async def test_unknown_fields_are_an_error_if_asked_for(api: Api, jobs: str) -> None:
    body = job("a")
    body["spec"]["nonsense"] = 1
    answer = await api.send("POST", jobs, body, fieldValidation="Strict")
    assert answer.status == 400
    assert 'strict decoding error: unknown field "spec.nonsense"' in answer.body["message"]


async def test_warnings_carry_no_control_characters(api: Api, config_maps: str) -> None:
    body = {**config_map("a"), "un\u0000known\n": 1}
    answer = await api.send("POST", config_maps, body, fieldValidation="Warn")
    assert answer.status == 201
    assert all(warning.isprintable() for warning in answer.warnings)
