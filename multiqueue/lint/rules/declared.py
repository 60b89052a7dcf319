"""Rules about JobKinds: whether a manager would accept them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from multiqueue.api.v1alpha1 import JobKind
from multiqueue.api.validation.access import Object
from multiqueue.jobs.declared.compiled import JobKindReason, JobKindRefusedError, compile_kind
from multiqueue.lint.finding import Severity
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import Lookup


@lint_rule(
    "job-kind-refused",
    kinds=("JobKind",),
    severity=Severity.ERROR,
    title="a JobKind that the manager will not accept",
    why="Jobs of the kind are not queued until it is corrected.",
    at_admission=False,
)
def refused(job_kind: Object, _: Lookup) -> Iterator[Hit]:
    try:
        compile_kind(msgspec.convert(job_kind, JobKind).spec)
    except msgspec.ValidationError as error:
        yield Hit("spec", str(error), "correct the field")
    except JobKindRefusedError as error:
        if error.reason is not JobKindReason.EXTRA_MISSING:  # here, not in the manager
            path, separator, problem = str(error).partition(": ")
            is_path = separator and path.startswith("spec.")
            what = problem if is_path else str(error)
            yield Hit(path if is_path else "spec", what, "correct it; try it with jobkind test")


LOCAL = (refused,)
