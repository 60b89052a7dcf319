"""Webhook configurations: defaults and checks."""

from typing import Any

from tests.unit.embedded.server.kind_builders import admitted, create_causes, fields

KEY = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")


def configuration(**change: Any) -> dict[str, Any]:
    webhook = {
        "name": "mjob.kb.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:9443/mutate"},
        "rules": [
            {
                "apiGroups": ["batch"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["jobs"],
            }
        ],
        **change,
    }
    return {"metadata": {"name": "a"}, "webhooks": [webhook]}


def test_defaults() -> None:
    service = {"service": {"name": "s", "namespace": "n"}}
    got = admitted(*KEY, configuration(clientConfig=service)).obj["webhooks"][0]
    assert got["clientConfig"]["service"]["port"] == 443
    assert got["rules"][0]["scope"] == "*"
    want = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "timeoutSeconds": 10,
        "namespaceSelector": {},
        "objectSelector": {},
    }
    assert {name: got[name] for name in want} == want


def test_a_good_one_is_accepted() -> None:
    assert create_causes(*KEY, configuration()) == []


def test_a_webhook_has_a_name() -> None:
    assert fields(create_causes(*KEY, configuration(name=""))) == ["webhooks[0].name"]


def test_names_are_unique() -> None:
    given = configuration()
    given["webhooks"] *= 2
    assert fields(create_causes(*KEY, given)) == ["webhooks[1].name"]
