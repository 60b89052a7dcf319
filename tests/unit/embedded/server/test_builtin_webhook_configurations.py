"""Webhook configurations: defaults and checks."""

from typing import Any

import pytest

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


def rule(**change: Any) -> dict[str, Any]:
    given: Any = configuration()
    given["webhooks"][0]["rules"][0] |= change
    return dict(given)


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


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (configuration(name="short"), "name"),
        (configuration(sideEffects="Some"), "sideEffects"),
        (configuration(sideEffects=None), "sideEffects"),
        (configuration(admissionReviewVersions=["v1beta1"]), "admissionReviewVersions"),
        (configuration(timeoutSeconds=60), "timeoutSeconds"),
        (configuration(failurePolicy="Panic"), "failurePolicy"),
        (configuration(clientConfig={}), "clientConfig"),
        (configuration(clientConfig={"url": "http://127.0.0.1/"}), "clientConfig.url"),
        (configuration(clientConfig={"service": {"name": "s"}}), "clientConfig.service.namespace"),
        (rule(operations=["READ"]), "rules[0].operations[0]"),
        (rule(resources=[]), "rules[0].resources"),
        (rule(scope="Some"), "rules[0].scope"),
    ],
    ids=[
        "short name", "side effects", "no side effects", "old review", "timeout", "policy",
        "nobody to ask", "plain HTTP", "half a service", "operation", "no resources", "scope",
    ],
)  # fmt: skip
def test_mistakes_are_named(given: dict, field: str) -> None:
    assert fields(create_causes(*KEY, given)) == [f"webhooks[0].{field}"]


def test_names_are_unique() -> None:
    given = configuration()
    given["webhooks"] *= 2
    assert fields(create_causes(*KEY, given)) == ["webhooks[1].name"]
