"""Applying, and reading who owns what."""

from collections.abc import Mapping
from typing import Any

from tests.contract.client import Answer, Api

APPLY = "application/apply-patch+yaml"


async def apply(
    api: Api, path: str, body: Any, *, manager: str, force: bool = False, **query: Any
) -> Answer:
    """Apply a configuration: an object, or a text."""
    if force:
        query["force"] = "true"
    return await api.send("PATCH", path, body, content_type=APPLY, fieldManager=manager, **query)


async def applied(
    api: Api, path: str, body: Any, *, manager: str, force: bool = False
) -> dict[str, Any]:
    """Apply a configuration that must be taken; the answer is the object."""
    answer = await apply(api, path, body, manager=manager, force=force)
    assert answer.status in {200, 201}, answer
    obj: dict[str, Any] = answer.body
    return obj


def managers(obj: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    """(manager, operation, subresource) of the entries."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", ""))
        for entry in obj["metadata"].get("managedFields", ())
    }


def fields_of(
    obj: Mapping[str, Any], manager: str, operation: str = "Apply", subresource: str = ""
) -> dict[str, Any]:
    """What an entry owns."""
    (found,) = [
        entry["fieldsV1"]
        for entry in obj["metadata"]["managedFields"]
        if (entry["manager"], entry["operation"], entry.get("subresource", ""))
        == (manager, operation, subresource)
    ]
    fields: dict[str, Any] = found
    return fields


def conflicts(status: Mapping[str, Any]) -> set[str]:
    """The fields of a conflict."""
    causes = status["details"]["causes"]
    assert {cause["reason"] for cause in causes} == {"FieldManagerConflict"}
    return {cause["field"] for cause in causes}
