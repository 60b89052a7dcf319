"""matchConditions of webhooks: which requests they are asked about."""

from typing import Any

import pytest

from tests.contract.client import Api, config_map, expect, unique
from tests.contract.test_admission_webhooks import REGISTRATION, Registrar, hooks, register
from tests.contract.webhook_server import WebhookServer

__all__ = ["hooks", "register"]  # fixtures


def conditions(*expressions: str) -> list[dict[str, str]]:
    return [
        {"name": f"condition{index}", "expression": expression}
        for index, expression in enumerate(expressions)
    ]


async def names_asked(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str, *expressions: str
) -> list[tuple[str, str]]:
    """Operations and names that a webhook with these conditions hears of."""
    hooks.answers["/hook"] = lambda _: {}
    await register.add("validating", matchConditions=conditions(*expressions))
    await register.until_asked()
    await api.create(config_maps, config_map("kept", {"x": "1"}))
    await api.create(config_maps, config_map("skipped", {"x": "1"}))
    await api.merge(f"{config_maps}/kept", {"data": {"x": "2"}})
    await api.delete(f"{config_maps}/kept")
    return [(each["operation"], each["name"]) for each in hooks.requests]


@pytest.mark.parametrize(
    ("expressions", "want"),
    [
        (["object == null || object.metadata.name != 'skipped'"], ["CREATE", "UPDATE", "DELETE"]),
        (
            ["request.operation == 'CREATE'", "request.name != 'skipped'"],
            ["CREATE"],
        ),
        (
            ["request.operation != 'DELETE' || oldObject.data.x == '3'", "true",
             "request.name != 'skipped'"],
            ["CREATE", "UPDATE"],
        ),
        (
            [("request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap' "
             "&& request.namespace.startsWith('contract') && request.userInfo.groups.size() > 0 "
             "&& !has(request.subResource) && request.name != 'skipped'")],
            ["CREATE", "UPDATE", "DELETE"],
        ),
        (
            ["request.name == 'probe' || object.data.y == ''", "request.name == 'probe'"],
            [],
        ),
    ],
    ids=["the object", "the request", "the old object", "all of the request", "false before error"],
)  # fmt: skip
async def test_only_what_meets_all_conditions_is_asked(
    api: Api,
    hooks: WebhookServer,
    register: Registrar,
    config_maps: str,
    expressions: list[str],
    want: list[str],
) -> None:
    got = await names_asked(api, hooks, register, config_maps, *expressions)
    assert got == [(operation, "kept") for operation in want]


async def test_a_condition_without_a_value_refuses(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    hooks.answers["/hook"] = lambda _: {}
    expression = "object.metadata.name == 'probe' || object.data.y == 'absent'"
    await register.add("validating", matchConditions=conditions(expression))
    await register.until_asked()
    refused = expect(await api.send("POST", config_maps, config_map("a", {"x": "1"})), 403)
    words = f"expression '{expression}' resulted in error: no such key: y"
    assert refused["message"] == f'configmaps "a" is forbidden: {words}'
    assert hooks.requests == []


async def test_a_condition_without_a_value_is_ignored_where_failures_are(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    hooks.answers["/hook"] = lambda _: {}
    expression = "object.metadata.name == 'probe' || object.data.y == 'absent'"
    await register.add("mutating", matchConditions=conditions(expression), failurePolicy="Ignore")
    await register.until_asked()
    await api.create(config_maps, config_map("a", {"x": "1"}))
    assert hooks.requests == []


BAD: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "no bool": (conditions("request.name"), "[0].expression", "must evaluate to bool"),
    "bad grammar": (conditions("true", "a b"), "[1].expression", "compilation failed"),
    "no such variable": (conditions("self == 1"), "[0].expression", "undeclared reference"),
    "no such field": (conditions("request.foo == 1"), "[0].expression", "undefined field 'foo'"),
    "no expression": ([{"name": "a", "expression": ""}], "[0].expression", "Required value"),
    "no name": ([{"name": "", "expression": "true"}], "[0].name", "Required value"),
    "bad name": ([{"name": "a b", "expression": "true"}], "[0].name", "name part must consist"),
    "same name": (conditions("true") * 2, "[1].name", "Duplicate value"),
}


@pytest.mark.parametrize("case", BAD)
async def test_bad_conditions_are_refused(api: Api, case: str) -> None:
    given, field, words = BAD[case]
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1/x"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "matchConditions": given,
    }
    body = {"metadata": {"name": unique("contract")}, "webhooks": [hook]}
    path = f"{REGISTRATION}/validatingwebhookconfigurations"
    answer = expect(await api.send("POST", path, body, dryRun="All"), 422)
    causes = {each["field"]: each["message"] for each in answer["details"]["causes"]}
    assert words in causes[f"webhooks[0].matchConditions{field}"]
