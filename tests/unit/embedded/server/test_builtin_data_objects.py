"""Secrets, config maps, events, services, roles, reviews."""

from typing import Any

import pytest

from multiqueue.embedded.server.auth import ISSUER, ApiUser, TokenAuthenticator
from multiqueue.embedded.server.builtin.reviews import token_review
from tests.unit.embedded.server.kind_builders import (
    RequestWorld,
    admitted,
    container,
    create_causes,
    created,
    fields,
    kind_of,
    texts,
    update_causes,
)


def named(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "ns"}, **more}


def test_plain_text_of_a_secret_becomes_data() -> None:
    secret = named(data={"a": "eA==", "b": "eQ=="}, stringData={"b": "z"})
    got = admitted("", "secrets", secret).obj
    assert got["data"] == {"a": "eA==", "b": "eg=="}
    assert got["type"] == "Opaque"
    assert "stringData" not in got


@pytest.mark.parametrize(
    ("secret", "field"),
    [
        (named(data={"a b": "eA=="}), "data[a b]"),
        (named(type="kubernetes.io/tls", data={"tls.crt": "eA=="}), "data[tls.key]"),
        (named(data={"a": "A" * 1_400_000}), "data"),
    ],
    ids=["key", "a key of the type is missing", "too large"],
)
def test_secrets_are_checked(secret: dict, field: str) -> None:
    assert fields(create_causes("", "secrets", secret)) == [field]


def test_an_immutable_secret_stays_as_it_is() -> None:
    old = created("", "secrets", named(data={"a": "eA=="}, immutable=True))
    new = {**old, "data": {"a": "eQ=="}, "immutable": False, "type": "other"}
    assert fields(update_causes("", "secrets", old, new)) == ["type", "data", "immutable"]


def test_keys_of_a_config_map_are_unique_over_both_kinds_of_data() -> None:
    config = named(data={"a": "x"}, binaryData={"a": "eA=="})
    assert texts(create_causes("", "configmaps", config)) == [
        'data[a]: Invalid value: "a": duplicate of key present in binaryData'
    ]


def test_an_immutable_config_map_stays_as_it_is() -> None:
    old = created("", "configmaps", named(data={"a": "x"}, immutable=True))
    assert fields(update_causes("", "configmaps", old, {**old, "data": {}})) == ["data"]


EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "ns"},
    "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p"},
    "reason": "Started",
    "message": "it runs",
    "count": 2,
    "type": "Normal",
}


def test_an_event_lives_where_its_object_lives() -> None:
    moved = {**EVENT, "involvedObject": {"kind": "Pod", "namespace": "other", "name": "p"}}
    assert create_causes("", "events", EVENT) == []
    assert fields(create_causes("", "events", moved)) == ["involvedObject.namespace"]


def test_events_can_be_selected_by_what_they_are_about() -> None:
    selectable = kind_of("", "events").versions[0].selectable_fields
    assert selectable["involvedObject.name"](EVENT) == "p"
    assert selectable["involvedObject.uid"](EVENT) == ""
    assert selectable["source"]({**EVENT, "source": {"component": "x"}}) == "x"


def test_a_service_gets_protocol_port_and_no_address() -> None:
    got = created("", "services", named(spec={"ports": [{"port": 80}]}))
    assert got["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert got["spec"]["clusterIP"] == "None"


def deployment(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}}
    return named(spec={"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec})


def test_a_deployment_rolls_by_quarters() -> None:
    got = created("apps", "deployments", deployment())["spec"]
    assert got["replicas"] == 1
    assert got["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert create_causes("apps", "deployments", deployment()) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"selector": None}, "spec.selector"),
        ({"selector": {"matchLabels": {"x": "y"}}}, "spec.template.metadata.labels"),
    ],
    ids=["no selector", "another selector"],
)
@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets"])
def test_workloads_are_checked(plural: str, spec: dict, field: str) -> None:
    assert fields(create_causes("apps", plural, deployment(**spec))) == [field]


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets"])
def test_replicas_are_not_negative(plural: str) -> None:
    assert fields(create_causes("apps", plural, deployment(replicas=-1))) == ["spec.replicas"]


def test_a_selector_is_immutable() -> None:
    old = created("apps", "replicasets", deployment())
    template = {**old["spec"]["template"], "metadata": {"labels": {"x": "y"}}}
    spec = {**old["spec"], "selector": {"matchLabels": {"x": "y"}}, "template": template}
    got = update_causes("apps", "replicasets", old, {**old, "spec": spec})
    assert fields(got) == ["spec.selector"]


def test_a_role_binding_names_the_group_and_keeps_its_role() -> None:
    key = ("rbac.authorization.k8s.io", "rolebindings")
    subjects = [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]
    old = created(*key, named(roleRef={"kind": "Role", "name": "r"}, subjects=subjects))
    assert old["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    assert "apiGroup" not in old["subjects"][1]
    new = {**old, "roleRef": {**old["roleRef"], "name": "other"}}
    assert fields(update_causes(*key, old, new)) == ["roleRef"]


def test_a_token_is_reviewed() -> None:
    authenticator = TokenAuthenticator({"good": ApiUser("bob")})
    good = token_review(authenticator, {"spec": {"token": "good"}}, RequestWorld())["status"]
    bad = token_review(authenticator, {"spec": {"token": "bad"}}, RequestWorld())["status"]
    bob = {"username": "bob", "groups": ["system:authenticated"]}
    assert good == {"authenticated": True, "user": bob, "audiences": [ISSUER]}
    assert bad == {"user": {}, "error": "invalid bearer token"}


def test_a_token_for_somebody_else_proves_nothing() -> None:
    authenticator = TokenAuthenticator({"good": ApiUser("bob")})
    spec = {"token": "good", "audiences": ["other"]}
    review = token_review(authenticator, {"spec": spec}, RequestWorld())
    assert review["status"] == {"user": {}, "error": "invalid bearer token"}


def test_who_am_i() -> None:
    respond = kind_of("authentication.k8s.io", "selfsubjectreviews").hooks.respond
    assert respond is not None
    review = respond({"metadata": {}}, RequestWorld())
    assert review["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert review["status"]["userInfo"]["username"] == "alice"
