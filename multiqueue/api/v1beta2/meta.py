"""Base of all typed objects: metadata, conditions, selectors, times and quantities on the wire."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec

from multiqueue.api.markers import SchemaRule, described
from multiqueue.lib.moments import in_utc


class Struct(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """A frozen API type: snake_case here, camelCase on the wire; unknown fields are ignored."""

    rules: ClassVar[tuple[SchemaRule, ...]] = ()
    """CEL rules of the whole type."""


QuantityValue = str | int | float
"""A Kubernetes quantity as it stands in JSON; `multiqueue.lib.quantity.parse_quantity` reads it."""

ResourceList = dict[str, QuantityValue]
"""Resource name -> quantity."""

PodTemplate = dict[str, Any]
"""A PodTemplateSpec, opaque: metadata and spec as on the wire."""


class OwnerReference(Struct, frozen=True, kw_only=True):
    """Owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """The parts of metadata that we read."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def created_at(self) -> datetime:
        """Creation time; the epoch when the object was never stored."""
        return parse_time(self.creation_timestamp) or datetime.fromtimestamp(0, UTC)


class Condition(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """metav1.Condition."""

    type: Annotated[
        str,
        described(
            "Type in CamelCase or in domain/CamelCase.",
            required=True,
            maxLength=316,
            pattern=(
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
        ),
    ]
    status: Annotated[
        str,
        described("True, False or Unknown.", required=True, enum=["True", "False", "Unknown"]),
    ]
    reason: Annotated[
        str,
        described(
            "Why the condition has its status, in CamelCase, for programs.",
            required=True,
            minLength=1,
            maxLength=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ] = ""
    message: Annotated[
        str, described("Why, with numbers, for people.", required=True, maxLength=32768)
    ] = ""
    last_transition_time: Annotated[
        str, described("When the status changed last.", required=True, format="date-time")
    ] = ""
    observed_generation: Annotated[
        int,
        described("Generation of the object that was looked at.", format="int64", minimum=0),
    ] = 0

    @property
    def transitioned_at(self) -> datetime:
        """Time of the last change of status; the epoch when absent."""
        return parse_time(self.last_transition_time) or datetime.fromtimestamp(0, UTC)


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True):
    """A condition on one label key."""

    key: Annotated[str, described("The label key.", required=True)]
    operator: Annotated[str, described("In, NotIn, Exists or DoesNotExist.", required=True)]
    values: Annotated[
        tuple[str, ...], described("Values for In and NotIn; empty for the others.")
    ] = ()


class LabelSelector(Struct, frozen=True, kw_only=True):
    """Selects by labels; an empty selector selects everything, an absent one nothing."""

    match_labels: Annotated[dict[str, str], described("Labels that must have these values.")] = {}
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], described("Conditions that must all hold.")
    ] = ()


class Taint(Struct, frozen=True, kw_only=True):
    """A taint that keeps pods without a matching toleration away."""

    key: Annotated[str, described("Key of the taint.", required=True)] = ""
    value: Annotated[str, described("Value of the taint.")] = ""
    effect: Annotated[
        str, described("NoSchedule, PreferNoSchedule or NoExecute.", required=True)
    ] = ""
    time_added: Annotated[
        str | None, described("When the taint was added.", format="date-time")
    ] = None


class Toleration(Struct, frozen=True, kw_only=True):
    """A taint that is tolerated."""

    key: Annotated[str, described("Key of the taint; empty with Exists means every key.")] = ""
    operator: Annotated[str, described("Equal (the default) or Exists.")] = ""
    value: Annotated[str, described("Value of the taint; empty with Exists.")] = ""
    effect: Annotated[
        str, described("NoSchedule, PreferNoSchedule or NoExecute; empty means all.")
    ] = ""
    toleration_seconds: Annotated[
        int | None,
        described(
            "How long a NoExecute taint is tolerated; absent means for ever.", format="int64"
        ),
    ] = None


TOLERATION_RULES = (
    SchemaRule(
        "self.all(x, !has(x.key) ? has(x.operator) && x.operator == 'Exists' : true)",
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
    ),
    SchemaRule(
        "self.all(x, has(x.tolerationSeconds) ? has(x.effect) && x.effect == 'NoExecute' : true)",
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    SchemaRule(
        "self.all(x, !has(x.operator) || x.operator in ['Equal', 'Exists'])",
        "supported toleration operators: 'Equal' (the default) and 'Exists'",
    ),
    SchemaRule(
        "self.all(x, has(x.operator) && x.operator == 'Exists' ? !has(x.value) || x.value == "
        "'' : true)",
        "a value must be empty when 'operator' is 'Exists'",
    ),
    SchemaRule(
        "self.all(x, !has(x.effect) || x.effect in ['NoSchedule', 'PreferNoSchedule', "
        "'NoExecute'])",
        "supported taint effects: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    ),
)


def parse_time(text: str | None) -> datetime | None:
    """Parse an RFC 3339 time of the API (with or without fraction) into an aware UTC datetime.

    Raises:
        ValueError: it is none.
    """
    if not text:
        return None
    return in_utc(datetime.fromisoformat(text))


def read_time(text: str | None) -> datetime | None:
    """Parse a time as `parse_time` does; None for what is no time."""
    try:
        return parse_time(text)
    except ValueError:
        return None


def format_time(moment: datetime) -> str:
    """Format as metav1.Time: whole seconds, UTC, ``Z``."""
    # strftime takes eight times as long.
    return moment.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
