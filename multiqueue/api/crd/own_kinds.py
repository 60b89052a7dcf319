"""The CustomResourceDefinitions of the kinds that upstream does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiqueue.api.crd.kinds import Column
from multiqueue.api.crd.schema import object_schema
from multiqueue.api.names import OWN_GROUP, V1ALPHA1
from multiqueue.api.v1alpha1 import (
    DispatchProfile,
    DisruptionPolicy,
    JobKind,
    QuotaPlan,
    UsageReport,
)
from multiqueue.api.v1beta2.meta import Struct

_AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")
_PROFILE_COLUMNS = (
    Column(name="Dispatcher", path=".spec.dispatcher"),
    Column(name="Active", path='.status.conditions[?(@.type=="Active")].status'),
    Column(
        name="Healthy",
        path='.status.conditions[?(@.type=="Healthy")].status',
        description="Whether its dispatcher answers, and keeps its promises",
    ),
    Column(
        name="Decisions",
        path=".status.decisions",
        type="integer",
        description="Questions that were answered",
    ),
    Column(
        name="Failures",
        path=".status.failures",
        type="integer",
        description="Questions that its dispatcher had no answer to",
    ),
    Column(
        name="Differences",
        path=".status.shadow.differences",
        type="integer",
        description="Answers of the shadow that name other clusters",
    ),
    Column(name="Canary", path=".status.canary.state", description="Running, Returned or Broken"),
    _AGE,
)
_DISRUPTION_COLUMNS = (
    Column(name="Prefer", path=".spec.prefer", description="Whom preemption stops first"),
    Column(name="Active", path='.status.conditions[?(@.type=="Active")].status'),
    Column(name="Reason", path='.status.conditions[?(@.type=="Active")].reason'),
    _AGE,
)
_JOB_KIND_COLUMNS = (
    Column(name="Group", path=".spec.group"),
    Column(name="Kind", path=".spec.kind"),
    Column(
        name="Accepted",
        path='.status.conditions[?(@.type=="Accepted")].status',
        description="Whether its expressions can be used",
    ),
    Column(
        name="Active",
        path='.status.conditions[?(@.type=="Active")].status',
        description="Whether its objects are queued",
    ),
    Column(
        name="Reason",
        path='.status.conditions[?(@.type=="Active")].reason',
        description="Why they are, or are not",
    ),
    Column(
        name="Healthy",
        path='.status.conditions[?(@.type=="Healthy")].status',
        description="Whether every expression had a value for every object",
    ),
    _AGE,
)

_PLAN_COLUMNS = (
    Column(name="Cohort", path=".spec.cohort"),
    Column(name="Mode", path=".spec.mode"),
    Column(name="State", path=".status.state", description="What the plan does now"),
    Column(name="Proposal", path=".status.proposal.hash", description="What may be approved"),
    Column(name="Changes", path=".status.changes", type="integer", description="Applied so far"),
    _AGE,
)
_USAGE_COLUMNS = (
    Column(name="Through", path=".status.through", description="Until when all is counted"),
    Column(name="Gap", path=".status.gapSeconds", type="integer", description="In seconds"),
    _AGE,
)


def own_crds() -> list[dict[str, Any]]:
    """Return new copies of the definitions."""
    return [
        _definition(DispatchProfile, "dispatchprofiles", "dprof", _PROFILE_COLUMNS),
        _definition(DisruptionPolicy, "disruptionpolicies", "dpol", _DISRUPTION_COLUMNS),
        _definition(JobKind, "jobkinds", "jkind", _JOB_KIND_COLUMNS),
        _definition(QuotaPlan, "quotaplans", "qplan", _PLAN_COLUMNS),
        _definition(UsageReport, "usagereports", "usage", _USAGE_COLUMNS, scope="Namespaced"),
    ]


def _definition(
    struct: type[Struct],
    plural: str,
    short_name: str,
    columns: Sequence[Column],
    *,
    scope: str = "Cluster",
) -> dict[str, Any]:
    kind = struct.__name__
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{OWN_GROUP}",
            "labels": {"app.kubernetes.io/name": "multiqueue"},
        },
        "spec": {
            "group": OWN_GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
            },
            "scope": scope,
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": V1ALPHA1.rpartition("/")[2],
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": object_schema(struct)},
                    "additionalPrinterColumns": [column.as_dict() for column in columns],
                    "subresources": {"status": {}},
                }
            ],
        },
    }
