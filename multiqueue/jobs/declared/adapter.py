"""How objects of a declared kind run on workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.v1alpha1 import RemoteCopy
from multiqueue.jobs.declared.expressions import NoValueError
from multiqueue.jobs.declared.kind import DeclaredKind
from multiqueue.jobs.framework.copy_adapter import CopyAdapter
from multiqueue.jobs.framework.fields import drop_field, get_field, parse_path, set_field
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook
from multiqueue.jobs.framework.multikueue import NO_PODS, StatusSync
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.workload_wire import diff

_ENDED = "spec.multiKueue.endedStatus"


class DeclaredAdapter(CopyAdapter):
    """Copies the spec to the worker, without some fields, and parts of the status back.

    Args:
        kind: The kind.
    """

    def __init__(self, kind: DeclaredKind) -> None:
        super().__init__(kind, success="Complete")
        self._declared = kind

    @property
    def status_subresource(self) -> str | None:
        """``status``, or None if the status is written with the object."""
        return "status" if self._remote.status_subresource else None

    @property
    def _remote(self) -> RemoteCopy:
        return self._declared.compiled.spec.multi_kueue or RemoteCopy()

    def refusal(self, job: Job) -> str | None:
        """Refuse a job whose kind runs on this cluster only, or that names another controller."""
        if self._declared.compiled.spec.multi_kueue is None:
            return (
                f"the JobKind of {self.gvk.kind} says nothing about workers; set spec.multiKueue "
                "in it, or use a queue that runs jobs here"
            )
        return super().refusal(job)

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """Copy the object, without the fields that the JobKind drops."""
        remote = super().remote_job(local, workload_name=workload_name, origin=origin, pods=pods)
        for path in self._remote.dropped_fields:
            remote = drop_field(remote, parse_path(path))
        return remote

    def status_patch(self, local: Job, remote: Job) -> StatusSync:
        """Copy the returned fields, by default the whole status."""
        paths = self._remote.returned_fields
        if not paths:
            return super().status_patch(local, remote)
        merged = local
        for path in map(parse_path, paths):
            value = get_field(remote, path)
            merged = drop_field(merged, path) if value is None else set_field(merged, path, value)
        change = diff(local.get("status") or {}, merged.get("status") or {})
        return StatusSync(patch={"status": change} if change else None)

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Set the status that the JobKind gives to a job whose copy ended and is gone."""
        expression = self._declared.compiled.expressions.get(_ENDED)
        if expression is None or self.kind.finished(local) is not None:
            return super().final_patch(local, end, now)
        variables = {"self": local, "success": end.success, "message": end.message}
        try:
            return {"status": expression.value(variables)}
        except NoValueError as error:
            self._declared.on_failure(local, str(error))
            return super().final_patch(local, end, now)


def build_declared(kind: DeclaredKind) -> SupportedKind:
    """Return what is done for a declared kind."""
    return SupportedKind(
        integration=kind,
        webhook=TemplateKindWebhook(kind),
        adapter=DeclaredAdapter(kind),
        is_declared=True,
    )
