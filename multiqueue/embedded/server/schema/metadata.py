"""Rules for ``metadata``, the same for every kind."""

from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, invalid, required, too_long
from multiqueue.lib import object_names as names

MAX_ANNOTATIONS_BYTES = 256 * 1024

# Finalizers without a domain that Kubernetes itself uses.
_STANDARD_FINALIZERS = {"kubernetes", "orphan", "foregroundDeletion"}


def validate_metadata(
    metadata: Mapping[str, Any], name_rule: str, path: str = "metadata"
) -> list[FieldCause]:
    """What is wrong with the metadata of an object about to be stored; its name is final."""
    name = metadata.get("name", "")
    causes: list[FieldCause] = []
    if not name:
        causes.append(required(f"{path}.name", "name or generateName is required"))
    else:
        causes += [
            invalid(f"{path}.name", name, text) for text in names.NAME_RULES[name_rule](name)
        ]
    causes += validate_labels(metadata.get("labels", {}), f"{path}.labels")
    causes += validate_annotations(metadata.get("annotations", {}), f"{path}.annotations")
    causes += _finalizers(metadata.get("finalizers", ()), f"{path}.finalizers")
    causes += _owner_references(metadata.get("ownerReferences", ()), f"{path}.ownerReferences")
    return causes


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldCause]:
    """Keys and values of labels."""
    causes: list[FieldCause] = []
    for key, value in labels.items():
        causes += [invalid(path, key, text) for text in names.qualified_name(key)]
        causes += [invalid(path, value, text) for text in names.label_value(value)]
    return causes


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldCause]:
    """Keys of annotations, and their total size."""
    causes: list[FieldCause] = []
    size = 0
    for key, value in annotations.items():
        causes += [invalid(path, key, text) for text in names.qualified_name(key.lower())]
        size += len(key) + len(value)
    if size > MAX_ANNOTATIONS_BYTES:
        causes.append(too_long(path, MAX_ANNOTATIONS_BYTES))
    return causes


def check_name(name: str, path: str, rule: Callable[[str], names.Messages]) -> list[FieldCause]:
    """Causes for a name that breaks a rule."""
    return [invalid(path, name, text) for text in rule(name)]


def _finalizers(finalizers: Any, path: str) -> list[FieldCause]:
    causes = []
    for index, finalizer in enumerate(finalizers):
        causes += [invalid(path, finalizer, text) for text in names.qualified_name(finalizer)]
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid(f"{path}[{index}]", finalizer, text))
    return causes


def _owner_references(references: Any, path: str) -> list[FieldCause]:
    causes = []
    for reference in references:
        for field, text in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not reference.get(field):
                causes.append(invalid(f"{path}.{field}", reference.get(field, ""), text))
    controllers = [reference for reference in references if reference.get("controller")]
    if len(controllers) > 1:
        shown = " and ".join(
            f"{reference.get('kind')}/{reference.get('name')}" for reference in controllers[:2]
        )
        text = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {shown}'
        )
        causes.append(invalid(path, list(references), text))
    return causes
