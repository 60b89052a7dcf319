"""node.k8s.io/v1 RuntimeClass: its overhead and node selection become part of the Pod."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, invalid, required
from multiqueue.embedded.server.kinds import AdmissionRefused, Hooks, JsonObject, RequestContext
from multiqueue.lib import object_names as names

GROUP, PLURAL = "node.k8s.io", "runtimeclasses"


def apply_runtime_class(spec: JsonObject, context: RequestContext) -> None:
    """Merge the Pod's RuntimeClass into its spec.

    Raises:
        AdmissionRefused: there is no such class, or the Pod contradicts it.
    """
    name = spec.get("runtimeClassName")
    if not name:
        if spec.get("overhead"):
            raise AdmissionRefused(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass"
            )
        return
    found = context.get(GROUP, PLURAL, None, name)
    if found is None:
        raise AdmissionRefused(f'pod rejected: RuntimeClass "{name}" not found')
    overhead = found.get("overhead", {}).get("podFixed")
    if overhead:
        if spec.get("overhead", overhead) != overhead:
            text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise AdmissionRefused(text)
        spec["overhead"] = dict(overhead)
    _merge_scheduling(spec, found.get("scheduling", {}))


def _merge_scheduling(spec: JsonObject, scheduling: Mapping[str, Any]) -> None:
    for key, value in scheduling.get("nodeSelector", {}).items():
        if spec.get("nodeSelector", {}).get(key, value) != value:
            raise AdmissionRefused(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {spec['nodeSelector'][key]}"
            )
        spec.setdefault("nodeSelector", {})[key] = value
    tolerations = spec.get("tolerations", [])
    added = [item for item in scheduling.get("tolerations", ()) if item not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _validate_create(obj: JsonObject, _context: RequestContext) -> list[FieldCause]:
    handler = obj.get("handler", "")
    if not handler:
        return [required("handler")]
    return [invalid("handler", handler, text) for text in names.label(handler)]


def _validate_update(
    new: JsonObject, old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    if new.get("handler") == old.get("handler"):
        return []
    return [invalid("handler", new.get("handler"), "field is immutable")]


RUNTIME_CLASS_HOOKS = Hooks(validate_create=_validate_create, validate_update=_validate_update)
