"""Configured changes of pod requests: excluded prefixes and transformations (E-4).

Pure arithmetic in natural units (cores, bytes), exact until the last step, which rounds up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from multiqueue.lib.amount import Amount
from multiqueue.lib.quantity import NANO, Quantity
from multiqueue.model.resources import CPU, clamp_request

_CPU_UNIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """One input resource and what each unit of it counts as.

    Shape: ``multiply_by`` is "" if the input is not multiplied; ``retain`` keeps the input too.
    """

    input: str
    outputs: Mapping[str, Quantity] = field(default_factory=dict)
    multiply_by: str = ""
    retain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRules:
    """The ``resources`` section of the Configuration, as far as it concerns requests."""

    exclude_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()


NO_RULES = RequestRules()


def transform_requests(requests: Mapping[str, Amount], rules: RequestRules) -> dict[str, Amount]:
    """Apply the rules to the requests of one pod; excluded inputs are dropped first."""
    kept = {
        name: max(0, value)
        for name, value in requests.items()
        if not name.startswith(rules.exclude_prefixes or ("\0",))
    }
    if not rules.transformations:
        return kept
    by_input = {rule.input: rule for rule in rules.transformations}
    result: dict[str, Amount] = {}
    bucket: dict[str, Fraction] = {}
    for name, value in kept.items():
        rule = by_input.get(name)
        if rule is None or rule.retain:
            result[name] = value
        if rule is not None:
            _collect(bucket, rule, kept)
    for name, total in sorted(bucket.items()):
        result[name] = clamp_request(result.get(name, 0) + _to_amount(name, max(total, Fraction())))
    return dict(sorted(result.items()))


def _collect(bucket: dict[str, Fraction], rule: Transformation, kept: Mapping[str, Amount]) -> None:
    quantity = _natural(rule.input, kept[rule.input])
    if rule.multiply_by in kept:
        quantity *= _natural(rule.multiply_by, kept[rule.multiply_by])
    for output, factor in rule.outputs.items():
        added = quantity * Fraction(factor.nano, NANO)
        bucket[output] = bucket.get(output, Fraction()) + added


def _natural(resource: str, amount: Amount) -> Fraction:
    return Fraction(amount, _CPU_UNIT if resource == CPU else 1)


def _to_amount(resource: str, value: Fraction) -> int:
    scaled = value * (_CPU_UNIT if resource == CPU else 1)
    return -(-scaled.numerator // scaled.denominator)
