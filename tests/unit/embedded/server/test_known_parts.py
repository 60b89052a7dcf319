"""What an update takes over from an admitted object is not looked at again, until it must be."""

from pathlib import Path

from multiqueue.embedded.server.schema import admit
from tests.contract.test_crds import CRDS, definition, version, widget
from tests.unit.embedded.server.kind_builders import custom_kind
from tests.unit.embedded.server.test_restart import WIDGETS, Running

SPEC = {"type": "object", "properties": {"size": {"type": "integer"}}}
STATUS = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
SCHEMA = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
HEAD = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}


def test_known_parts_stay_and_others_are_admitted() -> None:
    kind = custom_kind(SPEC)
    known = admit(kind, kind.versions[0], {**HEAD, "spec": {"size": 1}}).obj
    body = {**HEAD, "spec": known["spec"], "status": {"a": 1}}
    admitted = admit(kind, kind.versions[0], body, known=known)
    assert admitted.obj["spec"] is known["spec"]
    assert admitted.obj["status"] == {}
    assert list(admitted.obj) == list(body)
    assert admitted.warnings == ['unknown field "status.a"']


def test_equal_parts_are_admitted() -> None:
    kind = custom_kind(SPEC)
    body = {**HEAD, "spec": {"size": 1, "other": 2}}
    admitted = admit(kind, kind.versions[0], body, known={"spec": {"size": 1, "other": 2}})
    assert admitted.obj["spec"] == {"size": 1}


async def test_a_changed_definition_prunes_what_an_update_takes_over(tmp_path: Path) -> None:
    group = "g.example.com"
    wide = {"openAPIV3Schema": SCHEMA}
    names = {"subresources": {"status": {}}, "selectableFields": []}
    narrow = {"openAPIV3Schema": {"type": "object", "properties": {"status": STATUS}}}
    async with Running(tmp_path) as api:
        await api.create(CRDS, definition(group, version(schema=wide, **names)))
        await api.create(WIDGETS, widget(group))
        status = f"{WIDGETS}/a/status"
        kept = await api.merge(status, {"status": {"a": "1"}})
        assert kept["spec"] == {"size": 1}
        versions = [version(schema=narrow, **names)]
        await api.merge(f"{CRDS}/widgets.{group}", {"spec": {"versions": versions}})
        pruned = await api.merge(status, {"status": {"a": "2"}})
    assert "spec" not in pruned
    assert pruned["status"] == {"a": "2"}
