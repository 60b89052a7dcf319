"""The registry, discovery and OpenAPI documents made from it."""

import orjson
import pytest

from multiqueue.embedded.server.discovery import discovery, openapi
from multiqueue.embedded.server.schema.types import DATA, schema_of
from multiqueue.embedded.server.version_order import version_priority
from tests.unit.embedded.server.kind_builders import custom_kind, kind_of, make_registry

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


def test_versions_are_preferred_as_in_kubernetes() -> None:
    names = ["v1alpha1", "v2", "foo", "v1beta1", "v10", "v1", "v1beta2"]
    want = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
    assert sorted(names, key=version_priority) == want


def test_the_registry_counts_its_changes() -> None:
    registry = make_registry()
    before = registry.generation
    widget = custom_kind({"type": "object"})
    registry.add(widget)
    assert registry.get("example.com", "widgets") is widget
    assert registry.by_kind("example.com", "Widget") is widget
    assert registry.generation > before
    registry.remove("example.com", "widgets")
    assert registry.get("example.com", "widgets") is None
    assert registry.by_kind("example.com", "Widget") is None


def test_custom_groups_come_after_built_in_ones() -> None:
    registry = make_registry()
    registry.add(custom_kind({"type": "object"}))
    assert registry.groups()[0] == ""
    assert registry.groups()[-1] == "example.com"


def test_every_type_of_the_tables_expands() -> None:
    for path in DATA.glob("*.json"):
        document = orjson.loads(path.read_bytes())
        for name in document.get("types", ()):
            assert schema_of(f"{path.stem}.{name}")["type"] == "object"


def test_descriptions_describe_types_that_exist() -> None:
    for name in orjson.loads((DATA / "descriptions.json").read_bytes()):
        assert schema_of(name)["description"]


@pytest.mark.parametrize(
    ("type_name", "field", "want"),
    [
        ("core.PodSpec", "containers", "name"),
        ("core.Container", "env", "name"),
        ("core.Container", "ports", "containerPort"),
        ("core.ServiceSpec", "ports", "port"),
        ("core.PodStatus", "conditions", "type"),
        ("meta.ObjectMeta", "ownerReferences", "uid"),
        ("batch.JobStatus", "conditions", "type"),
        ("core.PodSpec", "tolerations", None),
        ("core.NodeSpec", "taints", None),
    ],
)
def test_lists_know_how_strategic_merge_treats_them(
    type_name: str, field: str, want: str | None
) -> None:
    schema = schema_of(type_name)["properties"][field]
    assert schema.get("x-kubernetes-patch-merge-key") == want


def test_aggregated_discovery_describes_subresources() -> None:
    documents = discovery.aggregated(make_registry(), core=True, version="v2")
    pods = next(
        resource
        for resource in documents["items"][0]["versions"][0]["resources"]
        if resource["resource"] == "pods"
    )
    assert pods["shortNames"] == ["po"]
    assert pods["scope"] == "Namespaced"
    got = {sub["subresource"]: sub["responseKind"]["kind"] for sub in pods["subresources"]}
    want = {"binding": "Binding", "eviction": "Eviction", "log": "Pod", "status": "Pod"}
    assert got == want


def test_legacy_discovery_describes_the_same() -> None:
    found = discovery.api_resource_list(make_registry(), "apps", "v1")
    assert found is not None
    scale = next(item for item in found["resources"] if item["name"] == "deployments/scale")
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert discovery.api_resource_list(make_registry(), "apps", "v9") is None


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        (f"{AGGREGATED.format('v2')},application/json", "v2"),
        (f"{AGGREGATED.format('v9')}, {AGGREGATED.format('v2beta1')}", "v2beta1"),
        ("application/json", None),
        ("*/*", None),
        ("", None),
    ],
    ids=["current", "the first that is known", "plain", "anything", "nothing"],
)
def test_aggregated_discovery_is_for_those_who_ask(accept: str, want: str | None) -> None:
    assert discovery.aggregated_version(accept) == want


def test_reviews_can_only_be_created() -> None:
    found = discovery.api_resource_list(make_registry(), "authentication.k8s.io", "v1")
    assert found is not None
    assert {tuple(resource["verbs"]) for resource in found["resources"]} == {("create",)}


def test_openapi_documents_change_with_the_registry() -> None:
    registry = make_registry()
    before = openapi.index(registry)
    registry.add(custom_kind({"type": "object", "properties": {"size": {"type": "integer"}}}))
    after = openapi.index(registry)
    assert "apis/example.com/v1" in after["paths"].keys() - before["paths"].keys()
    assert after["paths"]["apis/batch/v1"] == before["paths"]["apis/batch/v1"]
    assert openapi.document(registry, "apis/example.com/v9") is None
    assert openapi.document_hash(registry, "apis/example.com/v9") is None


def test_openapi_has_no_dangling_references() -> None:
    registry = make_registry()
    registry.add(custom_kind({"type": "object"}))
    for path in openapi.index(registry)["paths"]:
        raw = openapi.document(registry, path)
        assert raw is not None
        schemas = orjson.loads(raw)["components"]["schemas"]
        for part in raw.decode().split('"$ref":"')[1:]:
            assert part.split('"', 1)[0].removeprefix(openapi.REF) in schemas
        assert b"x-multiqueue" not in raw


def test_selectable_fields_read_like_kubernetes() -> None:
    read = kind_of("", "nodes").versions[0].selectable_fields["spec.unschedulable"]
    assert [read({"spec": {}}), read({"spec": {"unschedulable": True}})] == ["false", "true"]
