"""Objects that a kind reads beside its own: which they are, and that they are never written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.framework.integration import Finished, Job, PodSetInfo
from multiqueue.jobs.framework.related import add_related, list_related, related_keys
from multiqueue.jobs.framework.template_kind import RELATED, PodSetSource, TemplateKind
from multiqueue.jobs.setup import load_kind
from multiqueue.kube.resources import Resource, resource_of
from tests.job_kinds import ROWS

RECIPES = resource_of("example.com/v1", "recipes", "Recipe")
RECIPE = {"metadata": {"name": "soup"}, "spec": {"cooks": 3}}


class Meal(TemplateKind):
    """A kind whose count of pods is in another object."""

    related = (RECIPES,)

    def with_related(self, job: Job, find: Callable[[Resource, str, str], Job | None]) -> Job:
        recipe = find(RECIPES, job["metadata"]["namespace"], job["spec"]["recipe"])
        return {**job, RELATED: recipe} if recipe else job

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        count = job[RELATED]["spec"]["cooks"] if RELATED in job else 1
        return [PodSetSource(name="cooks", template=("spec", "template"), count=count)]

    def finished(self, job: Job) -> Finished | None:
        _ = job
        return None

    def is_active(self, job: Job) -> bool:
        _ = job
        return False

    def pods_ready(self, job: Job) -> bool:
        _ = job
        return False


MEAL = Meal(KnownKind(kind="Meal", group="example.com", version="v1", plural="meals"))
JOB: Job = {
    "metadata": {"name": "lunch", "namespace": "ns"},
    "spec": {"recipe": "soup", "suspend": True, "template": {"spec": {"containers": []}}},
}


def find_soup(resource: Resource, namespace: str, name: str) -> Job | None:
    return RECIPE if (resource, namespace, name) == (RECIPES, "ns", "soup") else None


def test_a_job_is_read_with_what_its_kind_looks_up() -> None:
    (pod_set,) = MEAL.pod_sets(add_related(MEAL, JOB, find_soup))
    assert pod_set.count == 3
    (pod_set,) = MEAL.pod_sets(add_related(MEAL, JOB, lambda *_: None))
    assert pod_set.count == 1


def test_it_is_reconciled_when_that_changes_or_appears() -> None:
    assert list_related(MEAL) == (RECIPES,)
    assert related_keys(MEAL, JOB) == ("example.com/Recipe/ns/soup",)


def test_no_write_contains_it() -> None:
    job = add_related(MEAL, JOB, find_soup)
    infos = [PodSetInfo(name="cooks", count=3, node_selector={"zone": "a"})]
    start = MEAL.start_patch(job, infos).patch
    assert start.keys() == {"spec"}
    assert start["spec"]["suspend"] is False
    running = {**job, "spec": {**job["spec"], "suspend": False}}
    stop = MEAL.stop_patch(running, MEAL.pod_sets(running))
    assert stop is not None
    assert stop.patch == {"spec": {"suspend": True}}


def test_other_kinds_read_nothing() -> None:
    for framework in ("batch/job", "jobset.x-k8s.io/jobset"):
        integration = load_kind(ROWS[framework]).integration
        assert list_related(integration) == ()
        assert add_related(integration, JOB, find_soup) is JOB
