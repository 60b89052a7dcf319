"""Group, version and kind: what an owner reference names, as a value."""

from __future__ import annotations

from typing import NamedTuple, Self

from multiqueue.kube.resources import Resource


class GroupVersionKind(NamedTuple):
    """Which kind of object, such as ("batch", "v1", "Job")."""

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, dotted: str) -> Self:
        """Build from ``Kind.version.group``, as configurations name kinds."""
        kind, _, rest = dotted.partition(".")
        version, _, group = rest.partition(".")
        return cls(group, version, kind)

    @property
    def api_version(self) -> str:
        """``v1`` or ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def dotted(self) -> str:
        """``Job.v1.batch``, as configurations name kinds."""
        return ".".join(part for part in (self.kind, self.version, self.group) if part)

    def __str__(self) -> str:
        """``batch/v1, Kind=Job`` or ``/v1, Kind=Pod``, as the job-owner-gvk annotation holds it."""
        return f"{self.group}/{self.version}, Kind={self.kind}"

    @classmethod
    def of(cls, api_version: str, kind: str) -> Self:
        """Build from the two fields of an object or owner reference."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @classmethod
    def of_resource(cls, resource: Resource) -> Self:
        """Build from the REST collection of the kind."""
        return cls(resource.group, resource.version, resource.kind)
