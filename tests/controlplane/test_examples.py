"""Every kind and feature as users write it: upstream Kueue and ours answer alike.

Each object is asked of both as it is written and, of our group, as if it were of the other version;
mixing up the two is the most common mistake of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.controlplane import installed
from tests.controlplane.asking import (
    GROUP,
    VERSIONS,
    Answer,
    Object,
    Server,
    in_both_versions,
    meaning,
    name_of,
    normal,
    read_documents,
)
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream, running_kueue

EXAMPLES = Path(__file__).parent / "examples"
BASE = "base.yaml"
MISTAKES = "mistakes-"
"""Files of objects that upstream refuses begin so; it takes those of the others."""
AGREEING_FIELDS = 0.95
PROBE = {
    "apiVersion": f"{GROUP}/v1beta1",
    "kind": "ClusterQueue",
    "metadata": {"name": "probe"},
    "spec": {"cohort": "probe"},
}
ORDER = "1: published guides list resources in another order"
LIMIT = "1: published guides limit borrowing without a cohort"
DEVICE = "2: the limit is taken from the request"
KEPT = "32: what v1beta2 cannot say is kept"
FOREIGN = "34: Jobs that are not queued are none of our business"
EMPTY_SLICES = "35: as 0.20 does"
DEVIATIONS = {
    "v1beta2/ClusterQueue/another-order": ORDER,
    "v1beta1/ClusterQueue/another-order": ORDER,
    "v1beta2/ClusterQueue/borrows-from-nobody": LIMIT,
    "v1beta1/ClusterQueue/borrows-from-nobody": LIMIT,
    "v1/Job/gpu-without-limit": DEVICE,
    "v1beta1/AdmissionCheck/provision": KEPT,
    "v1beta1/AdmissionCheck/budget": KEPT,
    "v1beta1/AdmissionCheck/to-workers": KEPT,
    "v1beta1/AdmissionCheck/old-provision": KEPT,
    "v1beta1/AdmissionCheck/old-retry": KEPT,
    "v1beta1/AdmissionCheck/retries": KEPT,
    "v1/Job/not-queued-two-wishes": FOREIGN,
    "v1/Job/not-queued-no-time": FOREIGN,
    "v1/Job/not-queued-shrinks-to-all": FOREIGN,
    "v1beta2/Workload/slices-without-pods": EMPTY_SLICES,
    "v1beta1/Workload/slices-without-pods": EMPTY_SLICES,
}
"""The number in docs/compatibility.md and the reason, by case."""


@dataclass(frozen=True, slots=True)
class Case:
    """One object and what both said."""

    is_mistake: bool | None
    """None: it is asked as if it were of the other version, so nothing is said about it."""
    upstream: Answer
    ours: Answer

    @property
    def difference(self) -> str:
        """How the answers differ; empty where they are alike."""
        if self.upstream.accepted != self.ours.accepted:
            return f"upstream: {self.upstream.words}\nours: {self.ours.words}"
        if not self.ours.accepted or normal(self.upstream.body) == normal(self.ours.body):
            return ""
        return f"upstream: {normal(self.upstream.body)}\nours: {normal(self.ours.body)}"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Upstream and ours with their webhooks, and what the examples refer to."""
    require(*NEEDED, "kueue")
    folder = tmp_path_factory.mktemp("examples")
    with (
        RealControlPlane(folder / "upstream") as reference,
        RealControlPlane(folder / "ours") as plane,
    ):
        install_upstream(reference)
        installed.install(plane)
        with (
            running_kueue(reference, folder / "kueue", webhooks=True),
            installed.leader(plane, folder / "manager"),
            Server(reference) as upstream,
            Server(plane) as ours,
        ):
            for server in (upstream, ours):
                until(lambda each=server: each.create(PROBE).accepted, "answer of the webhooks")
                for obj in read_documents(EXAMPLES / BASE):
                    answer = server.create(obj, dry_run=False)
                    assert answer.accepted, (name_of(obj), answer.words)
            yield upstream, ours


@pytest.fixture(scope="module")
def cases(servers: tuple[Server, Server]) -> dict[str, Case]:
    """All answers, by the names of the cases."""
    upstream, ours = servers
    found: dict[str, Case] = {}
    for path in example_files():
        for document in read_documents(path):
            for obj in in_both_versions(document):
                name = name_of(obj)
                assert name not in found, f"{name} is there twice"
                mistake = path.name.startswith(MISTAKES) if obj is document else None
                found[name] = Case(mistake, upstream.create(obj), ours.create(obj))
    return found


def example_files() -> list[Path]:
    """Every file but the one that the others refer to."""
    return sorted(path for path in EXAMPLES.glob("*.yaml") if path.name != BASE)


@pytest.mark.timeout(240)
def test_upstream_takes_the_good_and_refuses_the_mistakes(cases: dict[str, Case]) -> None:
    wrong = {
        name: case.upstream.words
        for name, case in cases.items()
        if case.is_mistake not in {None, not case.upstream.accepted}
    }
    assert wrong == {}


@pytest.mark.timeout(240)
def test_both_answer_alike_but_for_the_listed_deviations(cases: dict[str, Case]) -> None:
    differing = {name: case.difference for name, case in cases.items() if case.difference}
    unlisted = {name: how for name, how in differing.items() if name not in DEVIATIONS}
    assert unlisted == {}
    assert differing.keys() == DEVIATIONS.keys()


@pytest.mark.timeout(240)
def test_refusals_name_the_same_field(cases: dict[str, Case]) -> None:
    named = {
        name: (case.upstream.fields, case.ours.fields)
        for name, case in cases.items()
        if not case.ours.accepted and case.upstream.fields
    }
    others = {name: pair for name, pair in named.items() if not any_within(pair[1], pair[0])}
    assert len(named) > 100
    assert len(others) <= (1 - AGREEING_FIELDS) * len(named), others


def any_within(fields: set[str], others: set[str]) -> bool:
    """Whether one of the fields is one of the others, or lies in it."""
    return any(f"{field}.".startswith((f"{o}.", f"{o}[")) for field in fields for o in others)


@pytest.mark.timeout(240)
def test_no_object_is_an_error_of_the_server(cases: dict[str, Case]) -> None:
    broken = {n: c.ours.words for n, c in cases.items() if c.ours.status >= 500}
    assert broken == {}


@pytest.mark.timeout(240)
def test_what_is_stored_reads_the_same_in_the_other_version(
    servers: tuple[Server, Server], cases: dict[str, Case]
) -> None:
    different, read = {}, 0
    for path in example_files():
        for obj in read_documents(path):
            case = cases[name_of(obj)]
            both = case.upstream.accepted and case.ours.accepted
            if not obj["apiVersion"].startswith(GROUP) or not both:
                continue
            pair = [read_in_other_version(server, obj) for server in servers]
            read += 1
            if pair[0] != pair[1]:
                different[name_of(obj)] = pair
    assert read > 60
    assert {name: pair for name, pair in different.items() if name not in READ_DIFFERENTLY} == {}
    assert different.keys() == READ_DIFFERENTLY


READ_DIFFERENTLY = {
    f"v1beta2/AdmissionCheck/{name}" for name in ("provision", "budget", "to-workers")
}
"""Deviation 32: the default of a field that upstream drops."""


def read_in_other_version(server: Server, obj: Object) -> Object:
    """Store the object, read it in the version that it is not written in."""
    stored = server.create(obj, dry_run=False)
    assert stored.accepted, (name_of(obj), stored.words)
    version = obj["apiVersion"].rpartition("/")[2]
    (other,) = (each for each in VERSIONS if each != version)
    answer = server.get(obj, other)
    assert answer.accepted, (name_of(obj), answer.words)
    seen = normal(answer.body)
    # Controllers add finalizers when they get to it; in annotations is what else would be lost.
    seen["metadata"].pop("finalizers", None)
    annotations = seen["metadata"].pop("annotations", {})
    kept = {key: annotations[key] for key in annotations if not key.endswith("-only-fields")}
    read: Object = meaning({**seen, "annotations": kept})
    return read
