"""apiextensions.k8s.io/v1 CustomResourceDefinition: defaults, and whether it can be served."""

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.embedded.server.builtin.crd_schema import validate_schema
from multiqueue.embedded.server.builtin.pod_defaults import child
from multiqueue.embedded.server.causes import FieldCause, invalid, not_supported, required
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names

Json = Mapping[str, Any]

_SCOPES = ("Cluster", "Namespaced")


def _default(crd: JsonObject) -> None:
    spec = child(crd, "spec")
    spec_names = child(spec, "names")
    kind = spec_names.get("kind", "")
    if kind:
        spec_names.setdefault("singular", kind.lower())
        spec_names.setdefault("listKind", f"{kind}List")
    conversion = child(spec, "conversion")
    conversion.setdefault("strategy", "None")
    service = conversion.get("webhook", {}).get("clientConfig", {}).get("service")
    if service:
        service.setdefault("port", 443)


def _validate(crd: JsonObject) -> list[FieldCause]:
    spec = crd["spec"]
    group, spec_names = spec.get("group", ""), spec["names"]
    causes = []
    if not group:
        causes.append(required("spec.group"))
    else:
        causes += check_name(group, "spec.group", names.subdomain)
        if "." not in group:
            causes.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    expected = f"{spec_names.get('plural', '')}.{group}"
    if crd["metadata"]["name"] != expected:
        text = 'must be spec.names.plural+"."+spec.group'
        causes.append(invalid("metadata.name", crd["metadata"]["name"], text))
    if spec.get("scope") not in _SCOPES:
        causes.append(
            not_supported("spec.scope", spec["scope"], _SCOPES)
            if spec.get("scope")
            else required("spec.scope")
        )
    return [*causes, *_names(spec_names), *_versions(spec)]


def _names(spec_names: Json) -> list[FieldCause]:
    causes = []
    for field in ("plural", "singular", "kind", "listKind"):
        value, path = spec_names.get(field, ""), f"spec.names.{field}"
        if not value:
            causes.append(required(path))
        elif field in {"kind", "listKind"}:
            texts = names.label_1035(value.lower())  # capitalized, but in lower case a label too
            prefix = "may have mixed case, but should otherwise match: "
            causes += [invalid(path, value, prefix + text) for text in texts]
        else:
            causes += check_name(value, path, names.label_1035)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(spec_names.get(field, ())):
            causes += check_name(value, f"spec.names.{field}[{index}]", names.label_1035)
    if spec_names.get("kind") and spec_names.get("kind") == spec_names.get("listKind"):
        text = "kind and listKind may not be the same"
        causes.append(invalid("spec.names.listKind", spec_names["listKind"], text))
    return causes


def _versions(spec: Json) -> list[FieldCause]:
    versions = spec.get("versions", ())
    if not versions:
        return [required("spec.versions", "must have at least one version")]
    causes = []
    shared = _share_schema(versions)
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name", "")
        causes += check_name(name, f"{path}.name", names.label_1035)
        if name in seen:
            causes.append(invalid("spec.versions", name, "must contain unique version names"))
        seen.add(name)
        where = "spec.validation" if shared else f"{path}.schema"
        causes += _version(version, f"{where}.openAPIV3Schema")
    if _selectable_fields_lack_a_schema(versions):
        text = "may only be set when validations.schema is included"
        causes.append(invalid("spec.selectableFields", "", text))
    storing = sum(bool(version.get("storage")) for version in versions)
    if storing != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", [version.get("name") for version in versions], text))
    return causes


def _selectable_fields_lack_a_schema(versions: Sequence[Json]) -> bool:
    """Kubernetes lifts what all versions share out of them, and then misses a schema beside the
    selectable fields where the schemas differ.
    """
    first = versions[0]
    shared = all(each.get("selectableFields") == first.get("selectableFields") for each in versions)
    return bool(first.get("selectableFields")) and shared and not _share_schema(versions)


def _share_schema(versions: Sequence[Json]) -> bool:
    """Whether the schema is one for all versions, and so is called ``spec.validation``."""
    return all(version.get("schema") == versions[0].get("schema") for version in versions)


def _version(version: Json, where: str) -> list[FieldCause]:
    schema = version.get("schema", {}).get("openAPIV3Schema")
    if schema is None:
        return [required(where, "schemas are required")]
    return validate_schema(schema, where)


def _validate_update(new: JsonObject, old: Json, _context: RequestContext) -> list[FieldCause]:
    causes = _validate(new)
    spec, before = new["spec"], old["spec"]
    for path, value, former in (
        ("spec.group", spec.get("group"), before.get("group")),
        ("spec.scope", spec.get("scope"), before.get("scope")),
        ("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind")),
        ("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural")),
    ):
        if value != former:
            causes.append(invalid(path, value, "field is immutable"))
    offered = {version.get("name") for version in spec.get("versions", ())}
    stored = old.get("status", {}).get("storedVersions", ())
    for index, name in enumerate(stored):
        if name not in offered:
            path = f"status.storedVersions[{index}]"
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            causes.append(invalid(path, name, text))
    return causes


CRD_HOOKS = Hooks(
    default=_default,
    prepare_create=lambda crd, _context: crd.pop("status", None) and None,
    validate_create=lambda crd, _context: _validate(crd),
    validate_update=_validate_update,
)
