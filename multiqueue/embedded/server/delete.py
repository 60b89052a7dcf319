"""Delete: at once, gracefully (pods), or after finalizers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.admission.webhook_match import WebhookReview
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.entry import StoredObject, decode_in
from multiqueue.embedded.server.kinds import JsonObject, Kind
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.status import StatusError, bad_request, conflict, not_found
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.target import OperationTarget, target_of

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
POLICY_FINALIZER = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": None}
DEFAULT_POD_GRACE_SECONDS = 30
ATTEMPTS = 5
JOBS, PODS, NAMESPACES = ("batch", "jobs"), ("", "pods"), ("", "namespaces")
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
ORPHANS_BY_DEFAULT = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """What the client says about a deletion."""

    grace_seconds: int | None = None
    propagation: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    def as_dict(self, *, dry_run: bool) -> JsonObject:
        """The shape that webhooks see."""
        options: JsonObject = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace_seconds is not None:
            options["gracePeriodSeconds"] = self.grace_seconds
        if self.propagation is not None:
            options["propagationPolicy"] = self.propagation
        if dry_run:
            options["dryRun"] = ["All"]
        return options


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion led to."""

    entry: StoredObject
    gone: bool
    """False: the object waits, with a deletionTimestamp."""


def parse_delete_options(body: Any, query: Mapping[str, str]) -> DeleteOptions:
    """The options of a request: its body, else its query.

    Raises:
        StatusError: 400.
    """
    given = body if isinstance(body, dict) else {}
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    dry_run = given.get("dryRun") or []
    orphan = given.get("orphanDependents")
    propagation = given.get("propagationPolicy") or query.get("propagationPolicy")
    try:
        grace_seconds = None if grace is None else int(grace)
    except (TypeError, ValueError, OverflowError):
        raise bad_request(f"gracePeriodSeconds: Invalid value: {grace!r}") from None
    if not (isinstance(body, dict) and isinstance(preconditions, dict)) or dry_run not in (
        [],
        ["All"],
    ):
        raise bad_request("the body is not valid DeleteOptions")
    if not propagation and isinstance(orphan, bool):
        propagation = "Orphan" if orphan else "Background"
    if propagation and propagation not in tuple(POLICY_FINALIZER):
        raise bad_request(
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: '
            f'"{propagation}": supported values: "Foreground", "Background", "Orphan", "nil"'
        )
    return DeleteOptions(
        grace_seconds=grace_seconds,
        propagation=propagation or None,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(dry_run),
    )


def is_finished(obj: JsonObject) -> bool:
    """Whether nothing keeps an object that is being deleted."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"))
    )


async def delete(
    objects: Objects, call: Call, target: OperationTarget, options: DeleteOptions
) -> Deleted:
    """Delete an object, or mark it.

    Raises:
        StatusError: 400, 404, 409, or what a webhook says.
    """
    for _ in range(ATTEMPTS):
        entry = target.find(objects.store)
        if entry is None:
            raise not_found(target.kind, target.name)
        _check_preconditions(entry, target, options)
        old = decode_in(target.kind, target.version, entry)
        review = WebhookReview(
            operation="DELETE",
            target=target,
            obj=None,
            old=old,
            options=options.as_dict(dry_run=call.dry_run),
        )
        if objects.admission.concerns(review):
            await objects.admission.mutate(call, review)
            await objects.admission.validate(call, review)
        if target.find(objects.store) is not entry:
            continue
        return _commit(objects.store, call, target, options, entry)
    raise conflict(target.kind, target.name)


async def delete_all(objects: Objects, call: Call, kind: Kind, namespace: str | None = None) -> int:
    """Delete the objects of a kind, of one namespace or of all; return how many are still there.

    Raises:
        StatusError: as `delete`.
    """
    remaining = 0
    for entry in list(objects.store.collection(kind.key).entries(namespace)):
        if entry.deleting:
            remaining += 1
            continue
        options, target = DeleteOptions(propagation="Background"), target_of(kind, entry)
        try:
            remaining += not (await delete(objects, call, target, options)).gone
        except StatusError as error:
            if error.code != 404:
                raise
    return remaining


def _check_preconditions(
    entry: StoredObject, target: OperationTarget, options: DeleteOptions
) -> None:
    """Check what the client believes about the object.

    Raises:
        StatusError: 409.
    """
    uid, revision = options.uid, options.resource_version
    if uid and uid != entry.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({entry.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif revision and str(revision) != str(entry.revision):
        why = (
            f"the ResourceVersion in the precondition ({revision}) does not match the "
            f"ResourceVersion in record ({entry.revision}). The object might have been modified"
        )
    else:
        return
    kind = target.kind.kind
    message = f'Operation cannot be fulfilled on {kind} "{target.name}": {why}'
    raise StatusError(409, "Conflict", message, details={"name": target.name, "kind": kind})


def _commit(
    store: ObjectStore,
    call: Call,
    target: OperationTarget,
    options: DeleteOptions,
    entry: StoredObject,
) -> Deleted:
    before = entry.decode()
    marked = _marked(store, call, target, options, entry)
    gone = is_finished(marked)
    if call.dry_run:
        return Deleted(store.make_entry(entry.collection, marked, entry.revision), gone)
    if gone:
        entry = store.remove(entry, marked if entry.deleting else None)
    elif marked != before:
        entry = store.put(entry.collection, marked)
    return Deleted(entry, gone)


def _marked(
    store: ObjectStore,
    call: Call,
    target: OperationTarget,
    options: DeleteOptions,
    entry: StoredObject,
) -> JsonObject:
    """The object with deletion mark, grace period and finalizers as the options want them."""
    obj = entry.decode()
    metadata = obj["metadata"]
    finalizers = _finalizers(store, call, target, options, metadata)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    grace = _grace_seconds(target, options, obj)
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = format_time(call.now + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if target.kind.has_generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
        if target.kind.key == NAMESPACES:
            obj.setdefault("status", {})["phase"] = "Terminating"
    elif grace < metadata.get("deletionGracePeriodSeconds", 0):
        asked_at = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(
            seconds=metadata["deletionGracePeriodSeconds"]
        )
        metadata["deletionTimestamp"] = format_time(asked_at + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
    return obj


def _finalizers(
    store: ObjectStore,
    call: Call,
    target: OperationTarget,
    options: DeleteOptions,
    metadata: JsonObject,
) -> list[str]:
    """Add or remove the garbage collector's finalizers; without a word from the client what is
    there stays.
    """
    finalizers: list[str] = list(metadata.get("finalizers") or ())
    policy = options.propagation
    if policy is None:
        if target.kind.key == JOBS and not {ORPHAN, FOREGROUND} & set(finalizers):
            call.warn(ORPHANS_BY_DEFAULT)
            policy = "Orphan"
        else:
            return _with_cleanup(target, finalizers)
    wanted = POLICY_FINALIZER[policy]
    kept = [name for name in finalizers if name not in {ORPHAN, FOREGROUND}]
    if wanted == ORPHAN and not store.has_dependents(metadata["uid"]):
        wanted = None  # nothing to orphan: spare everybody the detour
    return _with_cleanup(target, [*kept, wanted] if wanted else kept)


def _with_cleanup(target: OperationTarget, finalizers: list[str]) -> list[str]:
    """Definitions wait until their objects are gone."""
    if target.kind.key == CRDS and CRD_CLEANUP not in finalizers:
        return [*finalizers, CRD_CLEANUP]
    return finalizers


def _grace_seconds(target: OperationTarget, options: DeleteOptions, obj: JsonObject) -> int:
    """Only pods that run somewhere have a grace period: their kubelet ends them, then deletes with
    0.
    """
    if target.kind.key != PODS:
        return 0
    spec: dict[str, Any] = obj.get("spec") or {}
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in {
        "Succeeded",
        "Failed",
    }:
        return 0
    if options.grace_seconds is not None:
        return max(options.grace_seconds, 0) if options.grace_seconds >= 0 else 1
    grace = spec.get("terminationGracePeriodSeconds")
    return DEFAULT_POD_GRACE_SECONDS if grace is None else int(grace)
