"""What the guard of a worker refuses: objects of a reservation that was replaced (I-1)."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.jobs.setup import list_remote_kinds
from multiqueue.webhooks.guard.epochs import MAX_MARKS, EpochBook
from multiqueue.webhooks.review import ReviewRequest

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"


def copy(epoch: str = OLD, *, name: str = "w", manager: str = "hub", **more: Any) -> dict[str, Any]:
    annotations = {names.DISPATCH_EPOCH: epoch, names.MANAGER: manager} if epoch else {}
    labels = {names.MULTIKUEUE_ORIGIN: "multikueue"}
    metadata = {"name": name, "namespace": "ns", "labels": labels, "annotations": annotations}
    return {"metadata": {**metadata, **more}, "spec": {}}


def job(epoch: str = OLD, *, suspend: bool = True, **more: Any) -> dict[str, Any]:
    made = copy(epoch, name="j", **more)
    made["metadata"]["annotations"][names.PREBUILT_WORKLOAD_NAME] = "w"
    return {**made, "spec": {"suspend": suspend}}


def ask(
    book: EpochBook,
    obj: dict[str, Any],
    *,
    operation: str = "CREATE",
    kind: str = "Workload",
    old: dict[str, Any] | None = None,
) -> bool:
    """Whether a request is allowed."""
    request = ReviewRequest(
        uid="u",
        group="",
        kind=kind,
        subresource="",
        operation=operation,
        namespace="ns",
        name=(obj or old or {})["metadata"]["name"],
        obj=obj,
        old=old or {},
    )
    return not book.judge(request).errors


def test_a_manager_that_wakes_up_cannot_bring_back_what_was_replaced():
    """It was paused before it created a copy; the next one has withdrawn a newer copy since."""
    book = EpochBook()
    assert ask(book, copy(OLD))
    assert ask(book, copy(NEW))
    assert ask(book, {}, operation="DELETE", old=copy(NEW))
    assert not ask(book, copy(OLD))
    assert ask(book, copy(NEW))


def test_nor_create_the_old_job_beside_the_new_copy():
    book = EpochBook()
    assert ask(book, copy(NEW))
    assert not ask(book, job(OLD), kind="Job")
    assert ask(book, job(NEW), kind="Job")


def test_what_was_deleted_while_no_guard_ran_is_known_by_the_marks_of_the_last_one():
    before = EpochBook()
    assert ask(before, copy(NEW))
    assert not ask(EpochBook(before.marks), copy(OLD))


def test_what_is_there_counts_without_a_request():
    book = EpochBook()
    book.see("Workload", copy(NEW))
    assert not ask(book, copy(OLD))


def test_the_same_reservation_may_be_offered_again():
    book = EpochBook()
    assert ask(book, copy(OLD))
    assert ask(book, {}, operation="DELETE", old=copy(OLD))
    assert ask(book, copy(OLD))


def test_an_old_job_may_be_stopped_and_not_be_started():
    book = EpochBook()
    book.see("Workload", copy(NEW))
    suspended, running = job(OLD), job(OLD, suspend=False)
    assert ask(book, suspended, operation="UPDATE", kind="Job", old=running)
    assert not ask(book, running, operation="UPDATE", kind="Job", old=suspended)


def test_a_newer_copy_is_not_made_an_old_one():
    book = EpochBook()
    assert not (ask(book, copy(NEW)) and ask(book, copy(OLD), operation="UPDATE", old=copy(NEW)))


def test_what_is_being_deleted_may_lose_its_finalizers():
    book = EpochBook()
    book.see("Workload", copy(NEW))
    leaving = copy(OLD, deletionTimestamp=NEW)
    assert ask(book, leaving, operation="UPDATE", old=leaving)


def test_managers_do_not_stand_in_each_other_s_way():
    book = EpochBook()
    assert ask(book, copy(NEW, manager="other"))
    assert ask(book, copy(OLD))


@pytest.mark.parametrize("epoch", ["", "soon"])
def test_what_bears_no_epoch_is_none_of_its_business(epoch):
    """Copies of upstream's managers, and of ours from before there were epochs."""
    book = EpochBook()
    assert ask(book, copy(NEW))
    assert ask(book, copy(epoch))


def test_the_marks_are_bounded_and_the_oldest_go():
    book = EpochBook()
    for number in range(MAX_MARKS + 1):
        assert ask(book, copy(NEW, name=f"w{number}"))
    assert len(book.marks) == MAX_MARKS
    assert ask(book, copy(OLD, name="w0"))
    assert not ask(book, copy(OLD, name=f"w{MAX_MARKS}"))


WITH_FIELD = [
    kind.integration for kind in list_remote_kinds() if isinstance(kind.integration, TemplateKind)
]


@pytest.mark.parametrize("kind", WITH_FIELD, ids=lambda each: each.gvk.kind)
def test_an_old_job_of_any_kind_is_not_let_run(kind: TemplateKind) -> None:
    waits = kind.set_suspended(job(OLD), value=True)
    runs = kind.set_suspended(waits, value=False)
    book = EpochBook(is_held=lambda _, obj: kind.is_suspended(dict(obj)))
    assert ask(book, copy(NEW))
    assert not ask(book, runs, kind=kind.gvk.kind, operation="UPDATE", old=waits)
    assert ask(book, waits, kind=kind.gvk.kind, operation="UPDATE", old=runs)
