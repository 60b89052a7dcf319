"""Rules about DispatchProfiles and the objects that name them."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.names import DISPATCH_PROFILE
from multiqueue.api.validation.access import Object, mapping, text
from multiqueue.lint.finding import Severity
from multiqueue.lint.quotas import absent, missing_severity
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import Lookup, name_of

PROFILE = "DispatchProfile"


@lint_rule(
    "dispatch-profile-missing",
    kinds=("LocalQueue", "ClusterQueue", "MultiKueueConfig", PROFILE),
    severity=Severity.ERROR,
    title="a DispatchProfile that does not exist",
    why="Workloads of the queue wait for a cluster until it exists; a shadow or canary is left "
    "out.",
)
def profile_missing(obj: Object, lookup: Lookup) -> Iterator[Hit]:
    for path, name in _references(obj):
        if name and lookup.get(PROFILE, name) is None:
            yield Hit(
                path,
                absent(lookup, PROFILE, name),
                "create it, or correct the name",
                missing_severity(lookup, PROFILE),
            )


def _references(obj: Object) -> Iterator[tuple[str, str]]:
    if obj.get("kind") != PROFILE:
        name = text(mapping(obj, "metadata", "annotations").get(DISPATCH_PROFILE))
        yield f"metadata.annotations[{DISPATCH_PROFILE}]", name.strip()
        return
    for side in ("shadow", "canary"):
        yield f"spec.{side}.profile", text(mapping(obj, "spec", side).get("profile"))


@lint_rule(
    "dispatch-profile-of-itself",
    kinds=(PROFILE,),
    severity=Severity.ERROR,
    title="a DispatchProfile that refers to itself",
    why="A fallback, shadow or canary must be another dispatcher than the first; it is not used.",
)
def profile_of_itself(profile: Object, _: Lookup) -> Iterator[Hit]:
    spec = mapping(profile, "spec")
    dispatcher, fallback = text(spec.get("dispatcher")), text(spec.get("fallback"))
    if fallback and fallback == dispatcher:
        what = f'"{fallback}" is the dispatcher that it should stand in for'
        yield Hit("spec.fallback", what, "name another one, such as all-at-once")
    for side in ("shadow", "canary"):
        name = text(mapping(spec, side).get("profile"))
        if name and name == name_of(profile):
            yield Hit(f"spec.{side}.profile", f'"{name}" is this profile', "name another one")


LOCAL = (profile_missing, profile_of_itself)
