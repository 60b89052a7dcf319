"""Fleet files: what is wrong is told by its path, all of it at once."""

from __future__ import annotations

import pytest

from multiqueue.projection.fleet import API_VERSION, KIND, FleetError, load_fleet
from tests.unit.projection.objects import FLEET

HEAD = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
QUEUES = """
workers:
- name: w
  clusterQueues:
"""
GROUPS = """
    spec:
      resourceGroups:
      - coveredResources: [cpu]
        flavors: [{name: f, resources: [{name: cpu, nominalQuota: 8}]}]
"""
BAD = [
    pytest.param("a: [", "not YAML", id="no YAML"),
    pytest.param("", "the file must hold a mapping, not nothing", id="empty"),
    pytest.param("- a", "the file must hold a mapping, not list", id="a list"),
    pytest.param("workers: []", f'it must begin with "apiVersion: {API_VERSION}"', id="no kind"),
    pytest.param(
        f"apiVersion: config.multiqueue.dev/v2\nkind: {KIND}",
        f'it must begin with "apiVersion: {API_VERSION}"',
        id="a version to come",
    ),
    pytest.param(
        HEAD + "worker: []", 'worker: unknown field; did you mean "workers"?', id="misspelt"
    ),
    pytest.param(HEAD + "workers: 3", "workers: expected `array`, got `int`", id="wrong type"),
    pytest.param(
        HEAD + "workers: [{}]",
        "workers[0]: object missing required field `name`",
        id="no name",
    ),
    pytest.param(
        HEAD + "workers: [{name: a}, {name: a}]",
        'workers[1].name: "a" is listed twice',
        id="a worker twice",
    ),
    pytest.param(
        HEAD + "workers: [{name: A_B}]",
        'workers[0].name: "A_B": a lowercase RFC 1123 subdomain',
        id="no name of an object",
    ),
    pytest.param(
        HEAD + "kinds: [Workload]",
        'kinds[0]: "Workload" cannot be projected; use Namespace, Topology',
        id="a kind that is not projected",
    ),
    pytest.param(
        HEAD + "workers: [{name: w, clusterQueues: [{name: q}]}]",
        "workers[0].clusterQueues[0].spec.resourceGroups: required; the quotas of a worker are",
        id="no quota",
    ),
    pytest.param(
        HEAD + QUEUES + "  - name: q" + GROUPS.replace(", nominalQuota: 8", ""),
        "workers[0].clusterQueues[0].spec.resourceGroups[0].flavors[0].resources[0]: object "
        "missing required field `nominalQuota`",
        id="a quota that was forgotten",
    ),
    pytest.param(
        HEAD + QUEUES + "  - name: q" + GROUPS.replace("8", "eight"),
        "clusterQueues[0].spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
        id="a quota that is no quantity",
    ),
    pytest.param(
        HEAD + QUEUES + "  - name: q" + GROUPS.replace("nominalQuota", "nominalQouta"),
        'resources[0].nominalQouta: unknown field; did you mean "nominalQuota"?',
        id="a misspelt quota",
    ),
    pytest.param(
        HEAD + QUEUES + "  - name: q" + GROUPS + "      cohort: c",
        'clusterQueues[0].spec.cohort: unknown field; did you mean "cohortName"?',
        id="a field of v1beta1",
    ),
    pytest.param(
        HEAD + QUEUES + "  - name: a\n" + GROUPS + "  - name: b" + GROUPS,
        "workers[0].clusterQueues: only one may leave out serves",
        id="two queues for everything",
    ),
    pytest.param(
        HEAD
        + QUEUES
        + "  - name: a\n    serves: [x]"
        + GROUPS
        + "  - name: b\n    serves: [x]"
        + GROUPS,
        'workers[0].clusterQueues[1].serves: "x" is served by "a" already',
        id="two queues for one",
    ),
    pytest.param(
        HEAD + "workers: [{name: w, flavors: [{name: f, spec: {nodeLabels: [a]}}]}]",
        "workers[0].flavors[0].spec.nodeLabels: expected `object`, got `array`",
        id="a wrong type in a spec",
    ),
    pytest.param(
        HEAD + "workers: [{name: w, flavors: [{name: f, spec: {nodeTaints: [{key: a b}]}}]}]",
        "workers[0].flavors[0].spec.nodeTaints[0].key",
        id="what admission would refuse",
    ),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_what_is_wrong_is_told_by_its_path(content: str, message: str) -> None:
    with pytest.raises(FleetError) as error:
        load_fleet(content)
    assert message in str(error.value)


def test_all_problems_are_told_at_once() -> None:
    content = HEAD + "kinds: [A]\nworkers: [{name: B}, {name: w, clusterQueues: [{name: q}]}]"
    with pytest.raises(FleetError) as error:
        load_fleet(content)
    assert [e.partition(":")[0] for e in error.value.errors] == [
        "kinds[0]",
        "workers[0].name",
        "workers[1].clusterQueues[0].spec.resourceGroups",
    ]


def test_a_worker_that_is_not_listed_has_nothing_of_its_own() -> None:
    fleet = load_fleet(FLEET)
    assert fleet.worker("w").cluster_queues[0].name == "all"
    assert fleet.worker("other").cluster_queues == ()
