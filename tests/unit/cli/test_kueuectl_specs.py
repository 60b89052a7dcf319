"""What is written in the options of ``create``: quotas, labels, taints and tolerations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.kueuectl.specs import (
    parse_node_taints,
    parse_node_tolerations,
    parse_pairs,
    parse_resource_groups,
)


def groups(nominal: str = "", borrowing: str = "", lending: str = "") -> list[dict[str, Any]]:
    return parse_resource_groups(
        {"nominal-quota": (nominal,), "borrowing-limit": (borrowing,), "lending-limit": (lending,)}
    )


def test_limits_join_the_quotas_of_their_flavor() -> None:
    assert groups(
        "alpha:cpu=9;memory=36Gi", "alpha:memory=1Gi;cpu=1", "alpha:cpu=2;memory=2Gi"
    ) == [
        {
            "coveredResources": ["cpu", "memory"],
            "flavors": [
                {
                    "name": "alpha",
                    "resources": [
                        {
                            "name": "cpu",
                            "nominalQuota": "9",
                            "borrowingLimit": "1",
                            "lendingLimit": "2",
                        },
                        {
                            "name": "memory",
                            "nominalQuota": "36Gi",
                            "borrowingLimit": "1Gi",
                            "lendingLimit": "2Gi",
                        },
                    ],
                }
            ],
        }
    ]


def test_flavors_with_other_resources_are_in_other_groups() -> None:
    found = groups("a:cpu=1,b:nvidia.com/gpu=2,c:cpu=3")
    told = [(g["coveredResources"], [f["name"] for f in g["flavors"]]) for g in found]
    assert told == [(["cpu"], ["a", "c"]), (["nvidia.com/gpu"], ["b"])]


@pytest.mark.parametrize(
    ("nominal", "borrowing", "says"),
    [
        ("alpha", "", '--nominal-quota "alpha": invalid resources specification; write FLAVOR:'),
        ("alpha:cpu", "", 'invalid resources specification "cpu"'),
        ("alpha:cpu=1;cpu=2", "", 'invalid resources specification "cpu=2"'),
        ("ALPHA:cpu=1", "", "invalid resources specification"),
        ("alpha:cpu=many", "", 'invalid resource quota: cpu "many" is no quantity'),
        ("alpha:cpu=1", "alpha:memory=1", "invalid flavor: flavor alpha has cpu elsewhere"),
        ("a:cpu=1,b:cpu=1;memory=1", "", "invalid resource group: flavor b has cpu, memory"),
        ("b:cpu=1;memory=1,a:cpu=1", "", "invalid resource group: flavor a has cpu, and cpu is"),
    ],
)
def test_a_wrong_quota_is_named_with_its_option(nominal: str, borrowing: str, says: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        groups(nominal, borrowing)
    assert says in str(caught.value)


def test_taints_and_tolerations_are_read_as_upstream_writes_them() -> None:
    assert parse_node_taints(("key1=value:NoSchedule,key2:NoExecute",)) == [
        {"key": "key1", "value": "value", "effect": "NoSchedule"},
        {"key": "key2", "effect": "NoExecute"},
    ]
    text = "key1=value:NoSchedule,key2:NoExecute,key3=value,key4,:PreferNoSchedule"
    assert parse_node_tolerations((text,)) == [
        {"key": "key1", "operator": "Equal", "value": "value", "effect": "NoSchedule"},
        {"key": "key2", "operator": "Exists", "effect": "NoExecute"},
        {"key": "key3", "operator": "Equal", "value": "value"},
        {"key": "key4", "operator": "Exists"},
        {"operator": "Exists", "effect": "PreferNoSchedule"},
    ]


def _labels(values: tuple[str, ...]) -> object:
    return parse_pairs("node-labels", values)


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (_labels, "gpu", '--node-labels "gpu": write KEY=VALUE'),
        (parse_node_taints, "key", "write KEY[=VALUE]:EFFECT"),
        (parse_node_taints, "key:Never", "Unsupported value"),
        (parse_node_taints, "a:NoSchedule,a=b:NoSchedule", "Duplicate value"),
        (parse_node_taints, "a b:NoSchedule", '--node-taints "a b:NoSchedule"'),
        (parse_node_tolerations, "a=b=c", '--tolerations "a=b=c": write KEY'),
        (parse_node_tolerations, "=b:NoSchedule", "a value needs a key"),
        (parse_node_tolerations, "a:Never", "Unsupported value"),
    ],
)
def test_what_is_wrong_is_named(
    parse: Callable[[tuple[str, ...]], object], text: str, says: str
) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse((text,))
    assert says in str(caught.value)
