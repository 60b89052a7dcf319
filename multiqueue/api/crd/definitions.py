"""CustomResourceDefinitions of all kinds, made from the types."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson

from multiqueue.api.config.types import Configuration, InternalCertManagement
from multiqueue.api.crd.kinds import KINDS, Column, CustomKind
from multiqueue.api.crd.own_kinds import OWN_KINDS
from multiqueue.api.crd.schema import object_schema
from multiqueue.api.crd.v1beta1 import downgrade_schema
from multiqueue.api.names import GROUP, OWN_GROUP, V1ALPHA1

Definition = dict[str, Any]


def load_crds() -> list[Definition]:
    """Return new copies of the CustomResourceDefinitions of all kinds, by kind.

    Kinds of our own group come last. For the other kinds, both versions are served and v1beta2 is
    stored. A webhook of the manager converts between them; the manager completes its address
    (`multiqueue.webhooks.conversion_registration`), or cert-manager does. The embedded server
    needs no webhook: it gets `multiqueue.api.conversion.converters`.
    """
    definitions: list[Definition] = orjson.loads(_encoded())
    return definitions


@cache
def _encoded() -> bytes:
    """Return the definitions as cached JSON, because reading the types is slow."""
    return orjson.dumps([*map(_kueue_definition, KINDS), *map(_own_definition, OWN_KINDS)])


def _own_definition(kind: CustomKind) -> Definition:
    version = _version(V1ALPHA1.rpartition("/")[2], kind, object_schema(kind.struct))
    return _definition(kind, OWN_GROUP, {"strategy": "None"}, [version])


def _kueue_definition(kind: CustomKind) -> Definition:
    schema = object_schema(kind.struct)
    v1beta2 = _version("v1beta2", kind, schema)
    v1beta1 = _version("v1beta1", kind, downgrade_schema(kind.kind, schema))
    v1beta1["deprecated"] = True
    v1beta1["deprecationWarning"] = (
        f"{GROUP}/v1beta1 {kind.kind} is deprecated; use {GROUP}/v1beta2 {kind.kind}"
    )
    v1beta1["storage"] = False
    return _definition(kind, GROUP, _conversion(), [v1beta1, v1beta2])


def _definition(
    kind: CustomKind, group: str, conversion: dict[str, Any], versions: list[Definition]
) -> Definition:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{group}",
            "labels": {"app.kubernetes.io/name": "multiqueue"},
        },
        "spec": {
            "group": group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": list(kind.short_names),
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "conversion": conversion,
            "versions": versions,
        },
    }


def _conversion() -> dict[str, Any]:
    """Return the conversion webhook; it refuses until the manager answers, so no data is lost."""
    service = {
        "name": InternalCertManagement().webhook_service_name,
        "namespace": Configuration().namespace,
        "path": "/convert",
        "port": 443,
    }
    return {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}},
    }


def _version(name: str, kind: CustomKind, schema: dict[str, Any]) -> Definition:
    result: Definition = {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if kind.columns:
        result["additionalPrinterColumns"] = [_column(column, name) for column in kind.columns]
    if kind.selectable_fields and name == "v1beta2":
        # In one version only: API servers refuse fields that are equal in all versions if the
        # schemas are not.
        result["selectableFields"] = [{"jsonPath": path} for path in kind.selectable_fields]
    if kind.has_status:
        result["subresources"] = {"status": {}}
    return result


def _column(column: Column, version: str) -> dict[str, object]:
    result = column.as_dict()
    if version == "v1beta1" and column.path == ".spec.cohortName":
        result["jsonPath"] = ".spec.cohort"
    return result
