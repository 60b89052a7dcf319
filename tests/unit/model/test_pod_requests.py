from typing import Any

from multiqueue.model.pod_template import sum_pod_requests


def container(name: str = "c", *, limits: Any = None, always: bool = False, **requests: Any) -> Any:
    made: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    if limits is not None:
        made["resources"]["limits"] = limits
    return {**made, "restartPolicy": "Always"} if always else made


def requests_of(**spec: Any) -> dict[str, int]:
    return dict(sum_pod_requests({"spec": spec}).requests)


def test_containers_run_together_and_add_up() -> None:
    """E-3."""
    got = requests_of(containers=[container(cpu="1", memory="1Gi"), container(cpu="500m")])

    assert got == {"cpu": 1500, "memory": 2**30}


def test_init_containers_run_one_by_one_and_only_the_largest_counts() -> None:
    got = requests_of(
        containers=[container(cpu="1")], initContainers=[container(cpu="3"), container(cpu="2")]
    )

    assert got == {"cpu": 3000}


def test_a_sidecar_runs_beside_the_containers_and_the_init_containers_after_it() -> None:
    """E-3."""
    sidecar, before, after = container(cpu="1", always=True), container(cpu="3"), container(cpu="3")

    assert requests_of(containers=[container(cpu="1")], initContainers=[sidecar]) == {"cpu": 2000}
    assert requests_of(
        containers=[container(cpu="1")], initContainers=[before, sidecar, after]
    ) == {"cpu": 4000}


def test_overhead_comes_on_top() -> None:
    assert requests_of(containers=[container(cpu="1")], overhead={"cpu": "250m"}) == {"cpu": 1250}


def test_requests_of_the_whole_pod_stand_above_those_of_its_containers() -> None:
    """E-3."""
    got = requests_of(
        containers=[container(cpu="1", memory="1Gi")], resources={"requests": {"cpu": "4"}}
    )

    assert got == {"cpu": 4000, "memory": 2**30}


def test_a_missing_request_is_copied_from_the_limit() -> None:
    assert requests_of(containers=[container(limits={"nvidia.com/gpu": "8"})]) == {
        "nvidia.com/gpu": 8
    }


def test_a_request_above_its_limit_is_a_problem_with_the_numbers() -> None:
    got = sum_pod_requests({"spec": {"containers": [container("c", limits={"cpu": "1"}, cpu="2")]}})

    assert got.problems == (
        'container "c" requests 2 cpu, more than its limit 1; lower the request or raise the limit',
    )


def test_negative_and_malformed_quantities_are_problems_and_count_nothing() -> None:
    got = sum_pod_requests({"spec": {"containers": [container("c", cpu="-1", memory="much")]}})

    assert got.requests == {}
    assert got.problems[0] == 'requests of container "c": cpu: -1 is negative; use 0 or more'
    assert got.problems[1].startswith('requests of container "c": memory: "much" is not a quantity')


def test_a_template_without_sense_requests_nothing() -> None:
    assert sum_pod_requests({}).requests == {}
    assert sum_pod_requests({"spec": {"containers": "none", "overhead": []}}).requests == {}
