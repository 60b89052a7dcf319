"""Asks the API server which rights the manager lacks on the objects of a declared kind."""

from __future__ import annotations

import asyncio
from typing import Any

from multiqueue.api.v1alpha1 import JobKindSpec
from multiqueue.jobs.declared.compiled import row_of
from multiqueue.jobs.rights import Rule, manager_rules
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import KubeError
from multiqueue.kube.resources import SELF_SUBJECT_ACCESS_REVIEWS

MISSING_RIGHTS_SECONDS = 15.0
"""How often a JobKind that is not active is looked at again."""


async def find_missing_rights(client: KubeClient, spec: JobKindSpec) -> str:
    """Return which rights are missing and what to do, in words; empty if none is.

    If the API server does not answer such questions, nothing is missing as far as is known.
    """
    rules = [rule for rule in manager_rules(row_of(spec)) if _is_used(rule)]
    asked = [
        (verb, rule["resources"][0], rule["apiGroups"][0])
        for rule in rules
        for verb in rule["verbs"]
    ]
    answers = await asyncio.gather(*(_may(client, *each) for each in asked))
    missing = [
        f"{verb} {resource}.{group}"
        for (verb, resource, group), may in zip(asked, answers, strict=True)
        if not may
    ]
    if not missing:
        return ""
    return (
        f"the manager lacks the right to {', '.join(missing)}; apply the roles that "
        '"multiqueue jobkind role FILE" prints'
    )


def _is_used(rule: Rule) -> bool:
    """Whether a missing right would be noticed: finalizers matter to some API servers only."""
    return not rule["resources"][0].endswith("/finalizers")


async def _may(client: KubeClient, verb: str, resource: str, group: str) -> bool:
    plural, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    review: dict[str, Any] = {
        "apiVersion": SELF_SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SELF_SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    try:
        answer = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, review)
    except KubeError:
        return True
    return bool((answer.get("status") or {}).get("allowed"))
