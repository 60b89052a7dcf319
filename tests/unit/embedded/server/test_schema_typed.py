"""Decoding into built-in types."""

import pytest

from tests.unit.embedded.server.kind_builders import admitted, container, job, pod


def test_unknown_fields_vanish_and_are_reported_with_their_path() -> None:
    got = admitted("", "pods", pod(containers=[container(imag="x")], nodName="n"))
    assert got.warnings == [
        'unknown field "spec.containers[0].imag"',
        'unknown field "spec.nodName"',
    ]
    assert "imag" not in got.obj["spec"]["containers"][0]
    assert "nodName" not in got.obj["spec"]


def test_strict_refuses_unknown_fields() -> None:
    got = admitted("batch", "jobs", job(bogus=3), field_validation="Strict")
    assert got.strict_errors == ['unknown field "spec.bogus"']
    assert got.bad_request == (
        'Job in version "v1" cannot be handled as a Job: '
        'strict decoding error: unknown field "spec.bogus"'
    )


def test_ignore_is_silent() -> None:
    got = admitted("batch", "jobs", job(bogus=3), field_validation="Ignore")
    assert (got.warnings, got.strict_errors, got.bad_request) == ([], [], None)


def test_duplicate_fields_are_found_in_the_bytes() -> None:
    raw = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "2"}}
    assert admitted("", "configmaps", body, raw=raw).warnings == ['duplicate field "data.x"']


def test_nulls_and_empty_optional_collections_vanish() -> None:
    body = pod(nodeName=None, tolerations=[], nodeSelector={}, securityContext=None)
    body["metadata"]["labels"] = None
    body["metadata"]["annotations"] = {}
    got = admitted("", "pods", body).obj
    assert got["metadata"] == {"name": "a", "namespace": "ns"}
    assert not {"nodeName", "tolerations", "nodeSelector"} & got["spec"].keys()
    assert got["spec"]["securityContext"] == {}


def test_a_null_in_a_map_is_an_empty_string() -> None:
    body = {"metadata": {"name": "a"}, "data": {"x": None}}
    assert admitted("", "configmaps", body).obj["data"] == {"x": ""}


@pytest.mark.parametrize(
    ("given", "want"),
    [(1, "1"), (0.5, "500m"), ("1000m", "1"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi")],
)
def test_quantities_become_canonical(given: object, want: str) -> None:
    body = pod(containers=[container(resources={"requests": {"memory": given}})])
    got = admitted("", "pods", body).obj
    assert got["spec"]["containers"][0]["resources"]["requests"] == {"memory": want}


def test_times_become_canonical() -> None:
    body = {
        "metadata": {"name": "a"},
        "spec": {"renewTime": "2026-01-01T02:00:00.5+01:00"},
    }
    got = admitted("coordination.k8s.io", "leases", body).obj
    assert got["spec"]["renewTime"] == "2026-01-01T01:00:00.500000Z"


CANNOT = 'Job in version "v1" cannot be handled as a Job: '
INTO = "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"parallelism": "3"}, INTO.format("string", "JobSpec.spec.parallelism", "int32")),
        ({"parallelism": 1.5}, INTO.format("number 1.5", "JobSpec.spec.parallelism", "int32")),
        (
            {"parallelism": 2**31},
            INTO.format("number 2147483648", "JobSpec.spec.parallelism", "int32"),
        ),
        ({"suspend": 1}, INTO.format("number", "JobSpec.spec.suspend", "bool")),
        ({"template": []}, INTO.format("array", "JobSpec.spec.template", "v1.PodTemplateSpec")),
        (
            {"template": {"spec": {"containers": [{"args": "x"}]}}},
            INTO.format("string", "Container.spec.template.spec.containers.args", "[]string"),
        ),
        (
            {"template": {"spec": {"nodeSelector": {"a": 1}}}},
            INTO.format("number", "PodSpec.spec.template.spec.nodeSelector.a", "string"),
        ),
    ],
    ids=["string", "float", "too large", "number", "list", "deep", "map value"],
)
def test_a_wrong_type_refuses_the_body_in_the_words_of_go(spec: dict, want: str) -> None:
    body = {"metadata": {"name": "a"}, "spec": spec}
    assert admitted("batch", "jobs", body).bad_request == CANNOT + want


def test_a_malformed_quantity_is_named_with_its_place() -> None:
    body = pod(containers=[container(resources={"limits": {"cpu": "lots"}})])
    got = admitted("", "pods", body).bad_request
    assert got is not None
    assert "quantities must match the regular expression" in got
    assert got.endswith('(spec.containers.resources.limits.cpu: "lots")')


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"data": {"x": "not base64!"}}, "illegal base64 data"),
        ({"metadata": {"deletionTimestamp": "soon"}}, 'parsing time "soon"'),
        ({"metadata": "x"}, "into Go struct field Secret.metadata of type v1.ObjectMeta"),
        ({"data": [1]}, "into Go struct field Secret.data of type map[string]string"),
        ({"immutable": "x"}, "of type bool"),
    ],
    ids=["bytes", "time", "object", "map", "boolean"],
)
def test_other_wrong_values_are_refused_too(body: dict, words: str) -> None:
    got = admitted("", "secrets", body).bad_request
    assert got is not None
    assert words in got


def test_the_body_itself_is_left_alone() -> None:
    body = job(bogus=1)
    before = repr(body)
    admitted("batch", "jobs", body)
    assert repr(body) == before
