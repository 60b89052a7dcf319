"""DispatchProfile: the dispatcher of a queue, its settings, and its shadow and canary."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from multiqueue.api.markers import DURATION_PATTERN, SUBDOMAIN_PATTERN, SchemaRule, described
from multiqueue.api.v1beta2.admission_check import CONDITIONS
from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, Struct

DISPATCHER_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$"
_DURATION: dict[str, Any] = {"maxLength": 32, "pattern": DURATION_PATTERN}
_DISPATCHER: dict[str, Any] = {"maxLength": 253, "pattern": DISPATCHER_PATTERN}
_PROFILE: dict[str, Any] = {"maxLength": 253, "pattern": SUBDOMAIN_PATTERN}
_ONE_OF = SchemaRule(
    "has(self.dispatcher) != has(self.profile)", "exactly one of dispatcher and profile is required"
)


class Scorer(Struct, frozen=True, kw_only=True):
    """One thing that is better or worse about a cluster, and how much it counts."""

    name: Annotated[
        str, described("Name of the scorer.", required=True, minLength=1, maxLength=63)
    ] = ""
    weight: Annotated[
        int,
        described(
            "How much it counts beside the others; 0: not at all.",
            default=1,
            minimum=0,
            maximum=1_000_000,
        ),
    ] = 1


class OtherDecider(Struct, frozen=True, kw_only=True):
    """A dispatcher, or the profile of one."""

    rules: ClassVar = (_ONE_OF,)

    dispatcher: Annotated[str, described("Name of a dispatcher.", **_DISPATCHER)] = ""
    arguments: Annotated[dict[str, Any], described("What that dispatcher is told.")] = (
        msgspec.field(default_factory=dict)
    )
    profile: Annotated[
        str,
        described(
            "Name of another DispatchProfile: its dispatcher, filters, scorers, arguments and "
            "timeBudget.",
            **_PROFILE,
        ),
    ] = ""


class ShadowSpec(OtherDecider, frozen=True, kw_only=True):
    """Who decides beside the active dispatcher, on the same views, with nothing acted on."""


class CanaryLimits(Struct, frozen=True, kw_only=True):
    """What a canary may do worse than the base before all Workloads return to that."""

    min_workloads: Annotated[
        int,
        described(
            "What is compared comes from at least this many Workloads on either side.",
            default=20,
            minimum=1,
            maximum=100_000,
        ),
    ] = 20
    failure_percent: Annotated[
        int,
        described(
            "It returns when it fails for (or does not get started) more of its Workloads, by this "
            "many percentage points, than the base does.",
            default=5,
            minimum=0,
            maximum=100,
        ),
    ] = 5
    worse_percent: Annotated[
        int,
        described(
            "It returns when the median time from its first nomination to admission is longer than "
            "the base's by more than this.",
            default=50,
            minimum=0,
            maximum=10_000,
        ),
    ] = 50
    start_within: Annotated[
        str,
        described(
            "A nominated Workload that no cluster has admitted after this time counts as not "
            "started.",
            default="10m",
            **_DURATION,
        ),
    ] = "10m"


class CanarySpec(OtherDecider, frozen=True, kw_only=True):
    """Who decides for a part of the Workloads, and when that ends."""

    percent: Annotated[
        int,
        described(
            "How many of a hundred Workloads it decides for, chosen by their uid: a Workload stays "
            "on its side, and a higher number keeps those that were chosen before.",
            required=True,
            minimum=0,
            maximum=100,
        ),
    ] = 0
    limits: Annotated[
        CanaryLimits,
        described("When all Workloads return to the base by themselves.", default={}),
    ] = CanaryLimits()


class DispatchProfileSpec(Struct, frozen=True, kw_only=True):
    """Who decides, and how."""

    dispatcher: Annotated[
        str,
        described(
            "Name of an installed dispatcher, such as score or example.com/mine.",
            required=True,
            **_DISPATCHER,
        ),
    ] = ""
    filters: Annotated[
        tuple[Annotated[str, described("", minLength=1, maxLength=63)], ...],
        described(
            "Names of the dispatcher's filters that count; it gets them as argument filters.",
            maxItems=64,
            list_type="set",
        ),
    ] = ()
    scorers: Annotated[
        tuple[Scorer, ...],
        described(
            "The dispatcher's scorers that count, and how much; it gets them as argument scorers.",
            maxItems=64,
            list_map_keys=("name",),
        ),
    ] = ()
    arguments: Annotated[
        dict[str, Any],
        described(
            "What else the dispatcher is told; which arguments there are, it says. filters and "
            "scorers have fields of their own."
        ),
    ] = msgspec.field(default_factory=dict)
    time_budget: Annotated[
        str,
        described("How long one decision may take; at most 10s.", default="1s", **_DURATION),
    ] = "1s"
    fallback: Annotated[
        str,
        described(
            "Name of a dispatcher that decides while the other one fails; none: Workloads wait.",
            **_DISPATCHER,
        ),
    ] = ""
    shadow: Annotated[ShadowSpec | None, described("Who else is asked, without effect.")] = None
    canary: Annotated[CanarySpec | None, described("Who decides for a part of the Workloads.")] = (
        None
    )


class SideStatus(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What came of the Workloads of one side."""

    workloads: Annotated[int, described("Workloads that it decided for.", format="int64")] = 0
    failures: Annotated[
        int, described("Of them, those that it failed for at least once.", format="int64")
    ] = 0
    started: Annotated[
        int, described("Of them, those that a cluster admitted in time.", format="int64")
    ] = 0
    not_started: Annotated[
        int, described("Of them, those that none admitted in time.", format="int64")
    ] = 0
    lost: Annotated[
        int,
        described(
            "Of those that started, those that lost their cluster again soon.", format="int64"
        ),
    ] = 0
    median_seconds: Annotated[
        int | None,
        described("Median of the seconds from first nomination to admission.", format="int64"),
    ] = None


class CanaryStatus(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """How the canary does beside the base."""

    state: Annotated[
        str, described("Running, Returned or Broken.", enum=["Running", "Returned", "Broken"])
    ] = "Running"
    canary: Annotated[SideStatus, described("What the canary did.")] = SideStatus()
    base: Annotated[SideStatus, described("What was decided without it meanwhile.")] = SideStatus()


class ShadowStatus(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """How often the shadow would have decided otherwise."""

    decisions: Annotated[int, described("Views that it answered to.", format="int64")] = 0
    differences: Annotated[
        int, described("Answers that name other clusters than were nominated.", format="int64")
    ] = 0
    failures: Annotated[int, described("Views that it had no answer to.", format="int64")] = 0
    skipped: Annotated[
        int, described("Views that it was not asked about: it was too slow.", format="int64")
    ] = 0
    last_difference: Annotated[str, described("The latest of them, in words.", maxLength=1024)] = ""


class DispatchProfileStatus(Struct, frozen=True, kw_only=True):
    """How a profile does; its figures begin anew with each generation and each manager."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()
    observed_generation: Annotated[
        int, described("Generation that the figures are about.", format="int64")
    ] = 0
    since: Annotated[str, described("When the figures began.", format="date-time")] = ""
    decisions: Annotated[int, described("Questions that were answered.", format="int64")] = 0
    failures: Annotated[
        int, described("Questions that its dispatcher had no answer to.", format="int64")
    ] = 0
    fallbacks: Annotated[
        int, described("Questions that the fallback answered.", format="int64")
    ] = 0
    shadow: Annotated[ShadowStatus | None, described("How the shadow does.")] = None
    canary: Annotated[CanaryStatus | None, described("How the canary does.")] = None


class DispatchProfile(Struct, frozen=True, kw_only=True):
    """Which dispatcher chooses the clusters for the Workloads of a queue, and how it is told to.

    LocalQueues, ClusterQueues and MultiKueueConfigs name one in the annotation
    multiqueue.dev/dispatch-profile.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[DispatchProfileSpec, described("Who decides, and how.", required=True)] = (
        DispatchProfileSpec()
    )
    status: Annotated[DispatchProfileStatus, described("How it does.")] = DispatchProfileStatus()
