"""Rules of custom resources, evaluated by the server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.cel_cases import INT, PAIR, REFUSED, RULES, STRING, struct
from tests.contract.client import MERGE, Answer, Api, expect, unique

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULE = "x-kubernetes-validations"


def ruled(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    """A schema with these rules."""
    entries = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, RULE: entries}


def definition(schema: dict[str, Any]) -> dict[str, Any]:
    group = f"{unique('rules')}.example.com"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    other = {**version, "name": "v2", "storage": False, "schema": {"openAPIV3Schema": struct()}}
    names = {"plural": "gauges", "singular": "gauge", "kind": "Gauge", "listKind": "GaugeList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gauges.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version, other]},
    }


class Gauges:
    """A custom kind with rules."""

    def __init__(self, api: Api, crd: dict[str, Any]) -> None:
        self.api = api
        self.crd = crd
        self.path = f"/apis/{crd['spec']['group']}/v1/gauges"

    def body(self, **parts: Any) -> dict[str, Any]:
        version = f"{self.crd['spec']['group']}/v1"
        return {"apiVersion": version, "kind": "Gauge", "metadata": {"name": "a"}, **parts}

    async def post(self, **parts: Any) -> Answer:
        return await self.api.send("POST", self.path, self.body(**parts))

    async def merge(self, **parts: Any) -> Answer:
        return await self.api.send("PATCH", f"{self.path}/a", parts, content_type=MERGE)

    async def redefine(self, schema: dict[str, Any]) -> None:
        """Change the schema, and wait until it counts."""
        path = f"{DEFINITIONS}/{self.crd['metadata']['name']}"
        current = await self.api.get(path)
        marker = {"type": "string", "default": unique("marker")}
        changed = {**schema, "properties": {**schema["properties"], "marker": marker}}
        current["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = changed
        await self.api.put(path, current)
        probe = self.body(metadata={"name": "probe"})
        for _ in range(200):
            answer = await self.api.send("POST", self.path, probe, dryRun="All")
            if expect(answer, 201).get("marker") == marker["default"]:
                return
            await asyncio.sleep(0.05)
        pytest.fail("the schema did not change")


@contextlib.asynccontextmanager
async def served(api: Api, schema: dict[str, Any]) -> AsyncIterator[Gauges]:
    gauges = Gauges(api, definition(schema))
    await api.create(DEFINITIONS, gauges.crd)
    await api.until(gauges.path, lambda answer: answer.status == 200)
    yield gauges
    await api.delete(f"{DEFINITIONS}/{gauges.crd['metadata']['name']}")


def refused(answer: Answer) -> dict[str, tuple[str, str]]:
    """Field to reason and message of a 422."""
    causes = expect(answer, 422)["details"]["causes"]
    return {cause["field"]: (cause["reason"], cause["message"]) for cause in causes}


def invalid(message: str) -> tuple[str, str]:
    return "FieldValueInvalid", f"Invalid value: {message}"


async def test_what_expressions_say(api: Api) -> None:
    names = {case: f"case{index}" for index, case in enumerate(RULES)}
    schema = struct(
        spec=struct(**{names[case]: ruled(each[0], each[1]) for case, each in RULES.items()})
    )
    wrong = {}
    async with served(api, schema) as gauges:
        for case, (_, _, good, bad) in RULES.items():
            got = [
                (await gauges.api.send("POST", gauges.path, gauges.body(spec=spec), dryRun="All"))
                for spec in ({names[case]: good}, {names[case]: bad})
            ]
            if [answer.status for answer in got] != [201, 422]:
                wrong[case] = [answer.body.get("message", answer.status) for answer in got]
            elif not refused(got[1]).keys() <= {f"spec.{names[case]}"}:
                wrong[case] = [got[1].body]
    assert wrong == {}


async def test_rules_that_do_not_compile_are_refused_with_their_place(api: Api) -> None:
    wrong = {}
    for case, (schema, rule, field, words) in REFUSED.items():
        crd = definition(struct(spec=ruled(schema, rule)))
        answer = await api.send("POST", DEFINITIONS, crd, dryRun="All")
        where = "spec.versions[0].schema.openAPIV3Schema.properties[spec]"
        got = refused(answer).get(f"{where}.{RULE}[0].{field}", ("", ""))[1]
        if words not in got:
            wrong[case] = answer.body.get("message")
    assert wrong == {}


async def test_reasons_messages_and_paths_of_refusals(api: Api) -> None:
    rules = (
        {"rule": "self.a > 0", "message": " too small ", "fieldPath": ".a"},
        {"rule": "self.a > 1", "reason": "FieldValueForbidden", "message": "never"},
        {"rule": "self.a > 2", "reason": "FieldValueRequired", "fieldPath": ".labels['x.y']"},
        {
            "rule": "self.a > 3",
            "messageExpression": "self.a == 0 ? 'not 0' : 'no'",
            "fieldPath": ".b",
        },
        {"rule": "self.a > 4", "messageExpression": "self.c", "message": "fall back"},
    )
    labels = {"type": "object", "maxProperties": 2, "additionalProperties": STRING}
    spec = struct(a=INT, b=INT, c=STRING, labels=labels)
    by_path = {**spec, RULE: [rules[0], rules[2], rules[3]]}
    async with served(api, struct(spec=by_path, other={**spec, RULE: [rules[1]]})) as gauges:
        got = refused(await gauges.post(spec={"a": 0}, other={"a": 0}))
    assert got == {
        "spec.a": invalid("too small"),
        "other": ("FieldValueForbidden", "Forbidden: never"),
        "spec.labels[x.y]": ("FieldValueRequired", "Required value: failed rule: self.a > 2"),
        "spec.b": invalid("not 0"),
    }
    async with served(api, struct(spec={**spec, RULE: [rules[4]]})) as gauges:
        assert refused(await gauges.post(spec={"a": 0})) == {"spec": invalid("fall back")}


async def test_a_scalar_is_shown_and_a_duplicate_too(api: Api) -> None:
    schema = struct(
        spec=ruled(STRING, "self != 'x'"),
        other=ruled(INT, {"rule": "self != 1", "reason": "FieldValueDuplicate"}),
        root=ruled(PAIR, {"rule": "self.a != 1", "reason": "FieldValueDuplicate"}),
    )
    async with served(api, schema) as gauges:
        got = refused(await gauges.post(spec="x", other=1, root={"a": 1}))
    assert got == {
        "spec": invalid("\"x\": failed rule: self != 'x'"),
        "other": ("FieldValueDuplicate", "Duplicate value: 1"),
        "root": ("FieldValueDuplicate", "Duplicate value"),
    }


async def test_errors_of_an_evaluation_refuse(api: Api) -> None:
    schema = struct(
        spec=ruled(PAIR, "self.b > 0"),
        other=ruled(PAIR, {"rule": "1 / self.a > 0", "message": "positive"}),
        free=ruled({"x-kubernetes-int-or-string": True}, "self > 5"),
    )
    async with served(api, schema) as gauges:
        got = refused(await gauges.post(spec={"a": 1}, other={"a": 0}, free="x"))
    assert got["spec"] == invalid('"object": no such key: b evaluating rule: self.b > 0')
    assert got["other"][1].endswith("evaluating rule: positive")
    assert "no such overload" in got["free"][1]


async def test_the_root_sees_its_kind_and_name(api: Api) -> None:
    schema = ruled(
        struct(spec=INT),
        "self.kind == 'Gauge' && self.apiVersion.endsWith('/v1') && self.metadata.name != 'a'",
    )
    async with served(api, schema) as gauges:
        got = refused(await gauges.post(spec=1))
    assert list(got) == ["<nil>"]


async def test_rules_see_defaults_and_not_what_is_absent_or_null(api: Api) -> None:
    schema = struct(
        spec=ruled(
            struct(
                a={**INT, "default": 5},
                b=ruled(INT, "false"),
                c=ruled({**INT, "nullable": True}, "false"),
            ),
            "self.a != 5",
        )
    )
    async with served(api, schema) as gauges:
        assert list(refused(await gauges.post(spec={"c": None}))) == ["spec"]
        expect(await gauges.post(spec={"a": 1, "c": None}), 201)


async def test_an_object_that_breaks_its_schema_is_not_asked_for_its_rules(api: Api) -> None:
    schema = struct(spec={**struct(a=INT, b=ruled(STRING, "false")), "required": ["a"]})
    async with served(api, schema) as gauges:
        got = refused(await gauges.post(spec={"b": "x"}))
        assert got.keys() == {"spec.a", "<nil>"}
        assert "some validation rules were not checked" in got["<nil>"][1]


async def test_a_value_out_of_range_does_not_hide_the_rules(api: Api) -> None:
    schema = struct(spec=struct(a={**INT, "maximum": 3}, b=ruled(STRING, "false")))
    async with served(api, schema) as gauges:
        got = refused(await gauges.post(spec={"a": 4, "b": "x"}))
        assert got.keys() == {"spec.a", "spec.b"}


async def test_transitions(api: Api) -> None:
    part = {**struct(name=STRING, size=ruled(INT, "self >= oldSelf")), "required": ["name"]}
    parts = {
        "type": "array",
        "maxItems": 4,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": part,
    }
    sizes = {
        "type": "object",
        "maxProperties": 4,
        "additionalProperties": ruled(INT, "self >= oldSelf"),
    }
    schema = struct(
        spec=struct(fixed=ruled(STRING, "self == oldSelf"), parts=parts, sizes=sizes),
    )
    async with served(api, schema) as gauges:
        spec = {"fixed": "x", "parts": [{"name": "a", "size": 2}], "sizes": {"k": 2}}
        expect(await gauges.post(spec=spec), 201)
        moved = [{"name": "b", "size": 1}, {"name": "a", "size": 1}]
        got = refused(
            await gauges.merge(spec={"fixed": "y", "parts": moved, "sizes": {"k": 1, "n": 0}})
        )
        assert got.keys() == {"spec.fixed", "spec.parts[1].size", "spec.sizes[k]"}
        expect(await gauges.merge(spec={"fixed": None, "parts": [{"name": "b", "size": 1}]}), 200)
        expect(await gauges.merge(spec={"fixed": "y"}), 200)


async def test_an_optional_old_self_is_asked_on_creation_too(api: Api) -> None:
    rule = {"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1"}
    schema = struct(spec=struct(a=ruled(INT, {**rule, "optionalOldSelf": True})))
    async with served(api, schema) as gauges:
        assert list(refused(await gauges.post(spec={"a": 2}))) == ["spec.a"]
        expect(await gauges.post(spec={"a": 1}), 201)
        expect(await gauges.merge(spec={"a": 3}), 200)
        assert list(refused(await gauges.merge(spec={"a": 2}))) == ["spec.a"]


@pytest.mark.parametrize("list_type", ["atomic", "set"])
async def test_lists_without_keys_have_no_old_items(api: Api, list_type: str) -> None:
    items = ruled(STRING, "self == oldSelf")
    items_list = {"type": "array", "maxItems": 4, "x-kubernetes-list-type": list_type}
    crd = definition(struct(spec=struct(a={**items_list, "items": items})))
    got = refused(await api.send("POST", DEFINITIONS, crd, dryRun="All"))
    where = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[a]"
    assert got[f"{where}.items.{RULE}[0].rule"][1] == (
        'Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion '
        f"of the schema within {where}"
    )


async def test_what_did_not_change_may_stay_invalid(api: Api) -> None:
    def schema(rule: str) -> dict[str, Any]:
        part = ruled(PAIR, rule)
        parts = {"type": "array", "maxItems": 4, "items": ruled(PAIR, rule)}
        return struct(spec=struct(part=part, parts=parts, note=STRING))

    bad = {"a": 2, "b": 1}
    async with served(api, schema("true")) as gauges:
        spec = {"part": bad, "parts": [bad], "note": "x"}
        expect(await gauges.post(spec=spec), 201)
        await gauges.redefine(schema("self.a < self.b"))
        expect(await gauges.merge(spec={"note": "y"}), 200)
        got = refused(await gauges.merge(spec={"part": {"a": 3}}))
        assert list(got) == ["spec.part"]
        got = refused(await gauges.merge(spec={"parts": [bad, {"a": 0, "b": 1}]}))
        assert list(got) == ["spec.parts[0]"]
        expect(await gauges.merge(spec={"part": {"a": 0}}), 200)


async def test_an_update_of_the_status_is_asked_for_all_that_changed(api: Api) -> None:
    schema = ruled(
        struct(spec=ruled(PAIR, "self.a > 0"), status=ruled(PAIR, "self.a > 0")),
        "!has(self.status) || self.status.b >= self.spec.b",
    )
    async with served(api, schema) as gauges:
        expect(await gauges.post(spec={"a": 1, "b": 5}, status={"a": 0}), 201)

        async def patch(**status: int) -> Answer:
            body = {"status": status}
            path = f"{gauges.path}/a/status"
            return await api.send("PATCH", path, body, content_type=MERGE)

        assert refused(await patch(a=0, b=4)).keys() == {"status", "<nil>"}
        expect(await patch(a=1, b=5), 200)
