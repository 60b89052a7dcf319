from __future__ import annotations

import copy
from typing import Any

import pytest

from multiqueue.api.crd import load_crds
from multiqueue.lib.merge_patch import apply_merge_patch
from multiqueue.webhooks.addresses import Address
from multiqueue.webhooks.conversion_registration import (
    DEFINITIONS,
    build_conversion,
    build_conversion_patch,
    is_stored_otherwise,
)

SERVICE = Address(service_name="kueue-webhook-service", service_namespace="kueue-system")
URL = Address(url="https://127.0.0.1:9443")
COHORTS = next(crd for crd in load_crds() if crd["spec"]["names"]["kind"] == "Cohort")


def patch(definition: dict[str, Any], address: Address, authority: bytes = b"ca") -> Any:
    return build_conversion_patch(definition, build_conversion(address, authority))


def test_all_definitions_are_ours() -> None:
    """Those that are served in two versions; a kind of our own group has one."""
    converted = [crd["metadata"]["name"] for crd in load_crds() if len(crd["spec"]["versions"]) > 1]
    assert sorted(DEFINITIONS) == sorted(converted)


def test_behind_the_service_of_the_manifests_only_the_authority_is_missing() -> None:
    got = patch(COHORTS, SERVICE)
    webhook = got["spec"]["conversion"]["webhook"]
    assert webhook == {"clientConfig": {"caBundle": "Y2E="}}


@pytest.mark.parametrize("address", [SERVICE, URL], ids=["Service", "URL"])
@pytest.mark.parametrize("before", [SERVICE, URL, None], ids=["Service", "URL", "none"])
def test_a_definition_is_put_right_by_one_patch(address: Address, before: Address | None) -> None:
    definition = copy.deepcopy(COHORTS)
    definition["spec"]["conversion"] = (
        {"strategy": "None"} if before is None else build_conversion(before, b"old")
    )
    want = build_conversion(address, b"ca")
    fixed = apply_merge_patch(definition, patch(definition, address))
    assert fixed["spec"]["conversion"] == want
    assert {**fixed["spec"], "conversion": None} == {**COHORTS["spec"], "conversion": None}
    assert patch(fixed, address) is None


def test_an_authority_that_somebody_else_injects_stays() -> None:
    definition = copy.deepcopy(COHORTS)
    definition["spec"]["conversion"] = build_conversion(SERVICE, b"injected")
    assert patch(definition, SERVICE, b"") is None


def test_a_definition_with_one_version_needs_no_conversion() -> None:
    definition = copy.deepcopy(COHORTS)
    del definition["spec"]["versions"][0]
    assert patch(definition, SERVICE) is None


@pytest.mark.parametrize(
    ("stored", "otherwise"),
    [
        ([], False),
        (["v1beta2"], False),
        (["v1beta1"], True),
        (["v1beta1", "v1beta2"], True),
    ],
)
def test_old_storage_is_seen(stored: list[str], *, otherwise: bool) -> None:
    assert is_stored_otherwise({**COHORTS, "status": {"storedVersions": stored}}) is otherwise
    assert not is_stored_otherwise(COHORTS)
