"""The program as its ServiceAccounts in tests: with the rights of our manifests, and no others.

`queue_cluster` gives them to the manager, and to what a manager does on a worker; so a permission
that is missing fails whatever scenario needs it. `recorded_calls` notes what was asked for.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml

from multiqueue.embedded.server.auth import ApiUser, service_account
from multiqueue.embedded.server.authz.attributes import Attributes

CONFIG = Path(__file__).parents[1] / "config"
MANAGER = service_account("kueue-system", "kueue-controller-manager")
REMOTE = service_account("kueue-system", "multikueue-manager")
"""A manager on a worker."""
MANAGER_TOKEN, REMOTE_TOKEN = "manager-token", "remote-token"
TOKENS: Mapping[str, ApiUser] = {MANAGER_TOKEN: MANAGER, REMOTE_TOKEN: REMOTE}

MANAGER_FILES = (
    "rbac/manager_role.yaml",
    "rbac/job_kinds_role.yaml",
    "rbac/declared_kinds_role.yaml",
    "rbac/namespaced_roles.yaml",
    "rbac/metrics_roles.yaml",
    "rbac/bindings.yaml",
    "visibility/bindings.yaml",
)
REMOTE_FILES = (
    "worker-role/role.yaml",
    "worker-role/job_kinds.yaml",
    "worker-role/declared_kinds.yaml",
    "worker-role-pods/role.yaml",
)
Call = tuple[ApiUser, Attributes]

_calls: ContextVar[list[Call] | None] = ContextVar("calls", default=None)


@functools.cache
def documents(name: str) -> tuple[dict[str, Any], ...]:
    """The objects of a file below config/."""
    return tuple(yaml.safe_load_all((CONFIG / name).read_text()))


def rbac_objects() -> Iterator[dict[str, Any]]:
    """Roles and bindings of both ServiceAccounts."""
    for name in (*MANAGER_FILES, *REMOTE_FILES):
        for obj in documents(name):
            if obj["apiVersion"].startswith("rbac."):
                yield obj


def kubeconfig_of(kubeconfig: Mapping[str, Any], token: str) -> dict[str, Any]:
    """The same cluster, for whoever has this token."""
    users = [{**user, "user": {"token": token}} for user in kubeconfig["users"]]
    return {**kubeconfig, "users": users}


@contextlib.contextmanager
def recorded_calls() -> Iterator[list[Call]]:
    """Calls of both ServiceAccounts to servers that are started inside of this."""
    calls: list[Call] = []
    reset = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(reset)


def audit_sink() -> Any:
    """What a server tells of its requests; None where nobody records them."""
    calls = _calls.get()
    if calls is None:
        return None

    def note(user: ApiUser, wanted: Attributes) -> None:
        if user.name in {MANAGER.name, REMOTE.name}:
            calls.append((user, wanted))

    return note
