"""Annotations and labels that tenants write on Jobs and Workloads, at each of their readers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api import names
from multiqueue.api.alternatives import find_alternatives, resolve_alternatives
from multiqueue.api.cluster_orders import read_orders
from multiqueue.api.config import Configuration
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.validation.alternatives import find_fewest, validate_alternatives
from multiqueue.forecast.traits import read_traits
from multiqueue.jobs.batch_job.webhook import default_job, validate_job_create, validate_job_update
from multiqueue.webhooks.guard.epochs import read_stamp
from tests.fuzz.reviews import assert_short
from tests.fuzz.runs import LONG, SHORT
from tests.unit.webhooks.lookups import Queues

SECONDS = 2.0
CONFIG = Configuration()
KEYS = sorted(
    {
        value
        for name, value in vars(names).items()
        if name.isupper()
        and isinstance(value, str)
        and value.startswith(("multiqueue.dev/", "kueue.x-k8s.io/"))
    }
)
PARTS = st.sampled_from(
    [
        "a",
        "=",
        ",",
        ":",
        ";",
        "-",
        "1",
        "0",
        "8xA100",
        "A100",
        "/",
        "@",
        "e9",
        "Gi",
        " ",
        "∞",
        "9" * 99,
    ]
)
TEXTS = st.lists(PARTS, max_size=8).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=12
)
LARGE = [text * (25_000 // len(text)) for text in ("a,", "a=1,", "9", "-", "{", "(")]
ANNOTATIONS = st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=5)


def build_job(annotations: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    metadata = {"name": "j", "namespace": "n", "annotations": annotations, "labels": labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"parallelism": 4, "completions": 4, "template": pod},
    }


def check(annotations: dict[str, str], labels: dict[str, str]) -> None:
    """Every reader takes any text, in time."""
    began = time.process_time()
    job = build_job(annotations, {**labels, names.QUEUE_NAME: "q"})
    default_job(job, Queues(multikueue=frozenset({"n/q"})), CONFIG)
    validate_job_create(job, CONFIG.gates)
    validate_job_update(job, build_job({}, {}), CONFIG.gates)
    find_fewest(job, 4)
    list(validate_alternatives(job))
    read_stamp("Job", job)
    read_orders(annotations)
    workload = decode(Workload, {**job, "spec": {"podSets": [{"name": "main", "count": 4}]}})
    read_traits(workload, workload.metadata.annotations, ())
    text = find_alternatives(annotations)
    if text:
        try:
            resolve_alternatives(text, {"main": 4})
        except ValueError as error:
            assert_short(error)
    assert time.process_time() - began < SECONDS


@SHORT
@given(ANNOTATIONS, ANNOTATIONS)
def test_any_annotation_is_read_or_refused(
    annotations: dict[str, str], labels: dict[str, str]
) -> None:
    check(annotations, labels)


@pytest.mark.fuzz
@LONG
@given(ANNOTATIONS, ANNOTATIONS)
def test_any_annotation_for_long(annotations: dict[str, str], labels: dict[str, str]) -> None:
    check(annotations, labels)


@pytest.mark.parametrize("text", LARGE, ids=lambda text: text[:4])
def test_large_annotations_are_read_soon(text: str) -> None:
    check(dict.fromkeys(KEYS, text), {})


@pytest.mark.parametrize("text", LARGE, ids=lambda text: text[:4])
def test_the_longest_selector_is_read_or_refused_soon(text: str) -> None:
    """Reading as much as an annotation may hold took 2 s, at each reconcile."""
    began = time.process_time()
    check({names.CLUSTER_SELECTOR: text * 10}, {})
    assert time.process_time() - began < SECONDS / 4
