"""Tables of bad input: which change of a good object is refused with which words at which field.

A table runs on the server under test: on the embedded one with our definitions and webhooks, and on
the real one that CONTRACT_KUBECONFIG names, where both are put first.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.client import MERGE, Answer, Api
from tests.contract.kueue_objects import changed, path_of, valid

R_GROUP = "spec.resourceGroups[0]"
FLAVOR = f"{R_GROUP}.flavors[0]"
QUOTA = f"{FLAVOR}.resources[0]"
LONG = "x" * 300


@dataclass(frozen=True)
class Bad:
    """One change and how it is refused.

    Attributes:
        changes: New values by path.
        words: What the refusal says of the field; ``@`` stands for the field.
        at: The field that is named; empty: the first that is changed.
        status: Of an answer of the server: 422 names fields in its causes, 400 in its message
            only. A webhook answers 403 and names fields in its causes.
    """

    changes: Mapping[str, Any]
    words: str
    at: str = ""
    status: int = 422

    @property
    def field(self) -> str:
        """The field that is named."""
        return self.at or next(iter(self.changes))

    def __str__(self) -> str:
        return f"{'+'.join(self.changes)}={str(next(iter(self.changes.values())))[:20]}"


Tables = Mapping[tuple[str, str], Iterable[Bad]]
"""From version and kind to what is refused."""


def rows(tables: Tables) -> list[Any]:
    """The parameters of a test over tables."""
    return [
        pytest.param(version, kind, bad, id=f"{kind}/{version} {bad}")
        for (version, kind), table in tables.items()
        for bad in table
    ]


def quota(number: int) -> dict[str, Any]:
    """A resource with a quota."""
    return {"name": f"r{number}", "nominalQuota": 1}


def group(number: int, flavors: int = 1) -> dict[str, Any]:
    """A resource group with names of its own."""
    return {
        "coveredResources": [f"r{number}"],
        "flavors": [
            {"name": f"f{number}-{each}", "resources": [quota(number)]} for each in range(flavors)
        ],
    }


async def assert_create_refused(
    api: Api, namespace: str, version: str, kind: str, bad: Bad
) -> None:
    """A create of the spoiled object is refused as the table says, and stores nothing."""
    path = path_of(kind, namespace, version)
    body = changed(valid(kind, version), bad.changes)
    answer = await api.send("POST", path, body, fieldValidation="Strict")
    assert_refused(answer, bad)


async def assert_update_refused(
    api: Api,
    namespace: str,
    kind: str,
    bad: Bad,
    *,
    status: Mapping[str, Any] | None = None,
    subresource: str = "",
) -> None:
    """An update of the good object to the spoiled one is refused as the table says.

    Args:
        api: The server.
        namespace: Where the object is made.
        kind: Of the object.
        bad: The change.
        status: What the status says before.
        subresource: ``/status``, or nothing.
    """
    async with stored(api, namespace, kind, valid(kind)) as made:
        path, current = f"{path_of(kind, namespace)}/a", made
        if status:
            current = await api.put(f"{path}/status", changed(made, status))
        if kind == "Job":  # its controller writes meanwhile
            del current["metadata"]["resourceVersion"]
        answer = await api.send("PUT", f"{path}{subresource}", changed(current, bad.changes))
        assert_refused(answer, bad)


@contextlib.asynccontextmanager
async def stored(
    api: Api, namespace: str, kind: str, body: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """Store an object, which is called ``a``, and remove it at the end."""
    path = path_of(kind, namespace)
    try:
        yield await api.create(path, body)
    finally:
        free = {"metadata": {"finalizers": None}}
        await api.send("PATCH", f"{path}/a", free, content_type=MERGE)
        await api.send("DELETE", f"{path}/a", propagationPolicy="Background")
        await api.until_gone(f"{path}/a")


def assert_refused(answer: Answer, bad: Bad) -> None:
    """The answer refuses with the status, the field and the words of the table."""
    is_webhook = answer.body["message"].startswith("admission webhook ")
    assert answer.status == (403 if is_webhook else bad.status), answer.text
    words = bad.words.replace("@", bad.field)
    if answer.status not in {403, 422}:
        assert words in answer.body["message"]
        return
    causes = answer.body["details"]["causes"]
    said = [cause["message"] for cause in causes if cause["field"] == bad.field]
    assert any(message.startswith(words) for message in said), causes
