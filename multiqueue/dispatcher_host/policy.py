"""Read a DispatchProfile: its dispatchers, their settings, and its mistakes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from multiqueue.api.durations import parse_duration
from multiqueue.api.v1alpha1 import CanarySpec, DispatchProfile, DispatchProfileSpec, ShadowSpec

BUDGET = timedelta(seconds=1)
"""Default budget. A decision for a hundred workers takes milliseconds; a second means I/O."""
LONGEST_BUDGET = timedelta(seconds=10)
"""Largest budget. No other decision is made meanwhile, so that room is not given away twice."""

FindProfile = Callable[[str], DispatchProfile | None]
DefaultArguments = Callable[[str], Mapping[str, Any]]
"""Returns the arguments that the manager's configuration sets for a dispatcher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherSetting:
    """One dispatcher with its settings.

    Attributes:
        dispatcher: Its name.
        arguments: Its arguments.
        budget: How long an answer may take.
        outside: Whether a name that is not installed may mean a controller outside.
        path: The field of the profile that names it, for messages; empty: the configuration.
    """

    dispatcher: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    budget: timedelta = BUDGET
    outside: bool = False
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReturnLimits:
    """The limits beyond which a canary returns; shares are between 0 and 1."""

    min_workloads: int
    failures: float
    slower: float
    start_within: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The dispatcher that decides for a percentage of the Workloads."""

    way: DispatcherSetting
    percent: int
    limits: CanaryReturnLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchPolicy:
    """The dispatchers of one profile, or one plain dispatcher.

    Attributes:
        profile: Name of the profile; empty if there is none.
        generation: Generation of the profile.
        base: The dispatcher that decides; None if there is a problem.
        fallback: The dispatcher that decides while the base fails.
        shadow: The dispatcher that is asked beside the base, without effect.
        canary: The dispatcher that decides for a part of the Workloads.
        problem: Why no dispatcher decides, with the field; empty if one does.
        side_problems: Problems of shadow or canary, which are then omitted.
    """

    profile: str = ""
    generation: int = 0
    base: DispatcherSetting | None = None
    fallback: DispatcherSetting | None = None
    shadow: DispatcherSetting | None = None
    canary: Canary | None = None
    problem: str = ""
    side_problems: tuple[str, ...] = ()


class _SpecError(Exception):
    """A field cannot be used; the text names the field."""


def build_policy(
    profile: DispatchProfile, find: FindProfile, defaults: DefaultArguments
) -> DispatchPolicy:
    """Read a profile.

    Args:
        profile: The profile to read.
        find: Finds other profiles by name.
        defaults: Returns the arguments of the manager's configuration for a dispatcher.
    """
    spec = profile.spec
    fallback = _plain(spec.fallback, defaults, "spec.fallback") if spec.fallback else None
    policy = DispatchPolicy(
        profile=profile.metadata.name, generation=profile.metadata.generation, fallback=fallback
    )
    try:
        base = _own_way(spec, defaults, "spec")
    except _SpecError as error:
        return replace(policy, problem=str(error))
    if spec.fallback == spec.dispatcher:
        return replace(policy, problem=f'spec.fallback: "{spec.fallback}" is spec.dispatcher, too')
    problems: list[str] = []
    shadow = canary = None
    try:
        shadow = _side(spec.shadow, profile, find, defaults, "spec.shadow")
    except _SpecError as error:
        problems.append(str(error))
    try:
        canary = _canary(spec.canary, profile, find, defaults)
    except _SpecError as error:
        problems.append(str(error))
    return replace(policy, base=base, shadow=shadow, canary=canary, side_problems=tuple(problems))


def build_plain_policy(dispatcher: str, defaults: DefaultArguments) -> DispatchPolicy:
    """Return the policy for a dispatcher that the configuration names without a profile."""
    way = DispatcherSetting(dispatcher=dispatcher, arguments=defaults(dispatcher), outside=True)
    return DispatchPolicy(base=way)


def list_references(profile: DispatchProfile) -> tuple[str, ...]:
    """Return the names of the profiles that a profile refers to."""
    sides = (profile.spec.shadow, profile.spec.canary)
    return tuple(side.profile for side in sides if side is not None and side.profile)


def _own_way(spec: DispatchProfileSpec, defaults: DefaultArguments, path: str) -> DispatcherSetting:
    if not spec.dispatcher:
        raise _SpecError(f"{path}.dispatcher: is empty; name a dispatcher")
    own = {"filters", "scorers"} & set(spec.arguments)
    if own:
        name = min(own)
        raise _SpecError(f"{path}.arguments.{name}: use {path}.{name}")
    arguments = {**defaults(spec.dispatcher), **spec.arguments}
    if spec.filters:
        arguments["filters"] = list(spec.filters)
    if spec.scorers:
        arguments["scorers"] = {scorer.name: scorer.weight for scorer in spec.scorers}
    budget = _read_duration(spec.time_budget, f"{path}.timeBudget")
    if budget > LONGEST_BUDGET:
        most = LONGEST_BUDGET.total_seconds()
        raise _SpecError(f"{path}.timeBudget: {spec.time_budget} is more than {most:g}s")
    return DispatcherSetting(
        dispatcher=spec.dispatcher,
        arguments=arguments,
        budget=budget,
        path=f"{path}.dispatcher",
    )


def _plain(dispatcher: str, defaults: DefaultArguments, path: str) -> DispatcherSetting:
    return DispatcherSetting(dispatcher=dispatcher, arguments=defaults(dispatcher), path=path)


def _side(
    spec: ShadowSpec | CanarySpec | None,
    profile: DispatchProfile,
    find: FindProfile,
    defaults: DefaultArguments,
    path: str,
) -> DispatcherSetting | None:
    if spec is None:
        return None
    if bool(spec.dispatcher) == bool(spec.profile):
        raise _SpecError(f"{path}: exactly one of dispatcher and profile is required")
    if spec.dispatcher:
        own = DispatchProfileSpec(dispatcher=spec.dispatcher, arguments=spec.arguments)
        budget = _read_duration(profile.spec.time_budget, "spec.timeBudget")
        way = _own_way(own, defaults, path)
        return replace(way, budget=budget)
    if spec.arguments:
        raise _SpecError(f"{path}.arguments: go with dispatcher; a profile has its own")
    if spec.profile == profile.metadata.name:
        raise _SpecError(f'{path}.profile: "{spec.profile}" is this one')
    other = find(spec.profile)
    if other is None:
        raise _SpecError(f'{path}.profile: DispatchProfile "{spec.profile}" not found')
    try:
        way = _own_way(other.spec, defaults, "spec")
    except _SpecError as error:
        raise _SpecError(f'{path}.profile: DispatchProfile "{spec.profile}": {error}') from error
    return replace(way, path=f"{path}.profile")


def _canary(
    spec: CanarySpec | None,
    profile: DispatchProfile,
    find: FindProfile,
    defaults: DefaultArguments,
) -> Canary | None:
    way = _side(spec, profile, find, defaults, "spec.canary")
    if spec is None or way is None:
        return None
    limits = spec.limits
    within = _read_duration(limits.start_within, "spec.canary.limits.startWithin")
    return Canary(
        way=way,
        percent=spec.percent,
        limits=CanaryReturnLimits(
            min_workloads=limits.min_workloads,
            failures=limits.failure_percent / 100,
            slower=limits.worse_percent / 100,
            start_within=within,
        ),
    )


def _read_duration(text: str, path: str) -> timedelta:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise _SpecError(f"{path}: {error}") from error
    if duration <= timedelta():
        raise _SpecError(f'{path}: "{text}" must be longer than nothing')
    return duration
