from multiqueue.lib.quantity import parse_quantity
from multiqueue.model.transformations import RequestRules, Transformation, transform_requests


def rule(name: str, *, times: str = "", retain: bool = True, **outputs: str) -> Transformation:
    parsed = {key.replace("_", "/"): parse_quantity(value) for key, value in outputs.items()}
    return Transformation(input=name, outputs=parsed, multiply_by=times, retain=retain)


def transform(
    requests: dict[str, int], *rules: Transformation, exclude: str = ""
) -> dict[str, int]:
    prefixes = (exclude,) if exclude else ()
    chosen = RequestRules(exclude_prefixes=prefixes, transformations=rules)
    return transform_requests(requests, chosen)


def test_without_rules_requests_stay() -> None:
    assert transform({"cpu": 1500, "memory": 1}) == {"cpu": 1500, "memory": 1}


def test_an_excluded_prefix_is_dropped() -> None:
    """E-4."""
    assert transform({"cpu": 1, "example.com/x": 1}, exclude="example.com/") == {"cpu": 1}


def test_an_input_may_be_kept_or_replaced() -> None:
    """E-4."""
    assert transform({"gpu": 2}, rule("gpu", credits="10")) == {"gpu": 2, "credits": 20}
    assert transform({"gpu": 2}, rule("gpu", retain=False, credits="10")) == {"credits": 20}


def test_an_input_may_be_scaled_by_another_resource() -> None:
    scaled = rule("memory", times="gpu", retain=False, credits="1")

    assert transform({"gpu": 2, "memory": 5}, scaled) == {"credits": 10, "gpu": 2}
    assert transform({"memory": 5}, scaled) == {"credits": 5}


def test_cpu_counts_in_cores_and_results_round_up() -> None:
    assert transform({"cpu": 1500}, rule("cpu", retain=False, credits="1")) == {"credits": 2}
    assert transform({"gpu": 1}, rule("gpu", cpu="250m")) == {"cpu": 250, "gpu": 1}


def test_outputs_of_several_inputs_add_up_and_never_take_away() -> None:
    """E-4."""
    rules = (rule("a", credits="5"), rule("b", credits="-1"), rule("c", less="-1"))

    assert transform({"a": 1, "b": 2, "c": 1}, *rules) == {
        "a": 1,
        "b": 2,
        "c": 1,
        "credits": 3,
        "less": 0,
    }
