"""The rules that our definitions publish say what they are meant to say."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.crd import load_crds
from multiqueue.embedded.server.cel.evaluate import ABSENT, evaluate
from multiqueue.embedded.server.cel.rules import CelScope, compile_rules
from tests.unit.embedded.server.own_rules import OWN_RULES, OwnRule

SCHEMAS = {
    (crd["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
    for crd in load_crds()
    for version in crd["spec"]["versions"]
}


def scope_of(rule: OwnRule, version: str) -> CelScope:
    """The place of a rule in the compiled definition."""
    scope = compile_rules(SCHEMAS[rule.kind, version]).root
    for name in rule.path.replace("[]", ".[]").split("."):
        assert scope is not None
        if name:
            scope = scope.items if name == "[]" else scope.properties[name]
    assert scope is not None
    return scope


@pytest.mark.parametrize("rule", OWN_RULES, ids=lambda rule: f"{rule.kind} {rule.message}"[:60])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_published_rule_says_what_it_is_meant_to(rule: OwnRule, data: st.DataObject) -> None:
    value = data.draw(rule.values)
    old = data.draw(rule.values) if rule.changes else ABSENT
    for version in rule.versions:
        causes = evaluate(scope_of(rule, version), value, old)
        refused = any(cause.message.endswith(rule.message) for cause in causes)
        assert not any("evaluating rule" in cause.message for cause in causes)
        assert refused == (not rule.holds(value, None if old is ABSENT else old))


def published(schema: Any, path: str = "") -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, inner in schema.get("properties", {}).items():
        yield from published(inner, f"{path}.{name}" if path else name)
    if isinstance(schema.get("items"), dict):
        yield from published(schema["items"], f"{path}[]")


def test_all_published_rules_are_known_here() -> None:
    want = {
        (kind, version, path, message)
        for (kind, version), schema in SCHEMAS.items()
        for path, message in published(schema)
    }
    got = {
        (rule.kind, version, rule.path, rule.message)
        for rule in OWN_RULES
        for version in rule.versions
    }
    assert got == want
