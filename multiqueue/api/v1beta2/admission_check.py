"""AdmissionCheck and Topology."""

from __future__ import annotations

from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, Struct


class AdmissionCheckParametersReference(Struct, frozen=True, kw_only=True):
    """The object that configures a check."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Struct, frozen=True, kw_only=True):
    """Who decides the check, and with which parameters."""

    controller_name: str = ""
    parameters: AdmissionCheckParametersReference | None = None


class AdmissionCheckStatus(Struct, frozen=True, kw_only=True):
    """Observed state of an AdmissionCheck."""

    conditions: tuple[Condition, ...] = ()


class AdmissionCheck(Struct, frozen=True, kw_only=True):
    """A condition beside quota that a Workload must meet before it is admitted."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class TopologyLevel(Struct, frozen=True, kw_only=True):
    """One level of a data centre."""

    node_label: str


class TopologySpec(Struct, frozen=True, kw_only=True):
    """Levels from the widest to the narrowest."""

    levels: tuple[TopologyLevel, ...] = ()


class Topology(Struct, frozen=True, kw_only=True):
    """How nodes are grouped into racks, blocks and so on."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TopologySpec = TopologySpec()
