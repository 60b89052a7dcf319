"""What is read of a pod template, and how often."""

from __future__ import annotations

from typing import Any

from multiqueue.lib.amount import Amount
from multiqueue.model.pod_template import LONGEST, read_pod_template


def make_template(cpu: str, *, labels: dict[str, str] | None = None) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "nodeSelector": {"zone": "a"}}
    return {"metadata": {"labels": labels or {}}, "spec": spec}


def test_templates_whose_pods_are_alike_are_read_once() -> None:
    first = read_pod_template(make_template("1", labels={"job-name": "a"}))

    assert read_pod_template(make_template("1", labels={"job-name": "b"})) is first
    assert first.pod.requests == {"cpu": Amount(1000)}
    assert first.placement.node_selector == (("zone", "a"),)


def test_one_that_says_otherwise_is_read_anew() -> None:
    read_pod_template(make_template("1"))

    assert read_pod_template(make_template("2")).pod.requests == {"cpu": Amount(2000)}


def test_a_template_without_a_spec_requests_nothing() -> None:
    read = read_pod_template({})

    assert (read.pod.requests, read.problems) == ({}, ())


def test_long_templates_are_not_kept_in_memory() -> None:
    template = make_template("1")
    template["spec"]["containers"][0]["args"] = ["x" * LONGEST]
    read = read_pod_template(template)

    assert read.pod.requests == {"cpu": Amount(1000)}
    assert read_pod_template(template) is not read
