"""Computes one what-if in a process of its own, of low priority and with little memory.

The manager starts it with ``python -m multiqueue.whatif.child``, writes the question and the
objects to its standard input, and reads the answer from its standard output. Nothing else is read,
and nothing is written.
"""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

if TYPE_CHECKING:  # the limits are set before anything large is imported
    from multiqueue.whatif.difference import Effected

Json = dict[str, Any]
NICENESS = 19
"""The lowest priority: admission goes first."""
MEMORY = 1024**3
"""Bytes of address space. A fleet with 10,000 Workloads takes a third of it."""

ROWS, ROWS_OF_A_NAMESPACE = 1000, 200
"""The rows of an answer; further ones are only counted."""


def main() -> None:
    """Answer the question of standard input."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        answer = answer_lines(sys.stdin.buffer)
    except MemoryError:
        answer = {"error": "too large", "message": f"it takes more than {MEMORY >> 20} MiB"}
    sys.stdout.buffer.write(orjson.dumps(answer))


def answer_lines(lines: Iterable[bytes]) -> Json:
    """Return the answer to a question and the objects that it is about.

    Args:
        lines: The question with the header of the snapshot, then one object a line.

    Returns:
        The document of `documents.tried_to_dict`, with ``job`` if the question has one; or
        ``error`` and ``message``.
    """
    from multiqueue.whatif.change_request import ChangeError
    from multiqueue.whatif.snapshot import SnapshotError

    rest = iter(lines)
    asked = orjson.loads(next(rest))
    try:
        return _answer(asked, rest)
    except ChangeError as error:
        return {"error": "change", "message": str(error)}
    except SnapshotError as error:
        return {"error": "snapshot", "message": str(error)}


def _answer(asked: Json, lines: Iterable[bytes]) -> Json:
    from multiqueue.whatif.changes import apply_change
    from multiqueue.whatif.documents import tried_to_dict, workload_to_dict
    from multiqueue.whatif.snapshot import read_lines
    from multiqueue.whatif.submission import submit_job
    from multiqueue.whatif.trial import compare_worlds

    snapshot = read_lines(asked["snapshot"], lines)
    changed = snapshot.copy()
    done = [apply_change(changed, text, _refuse_file) for text in asked["changes"]]
    job, key = asked["job"], ""
    if job is not None:
        key = submit_job(changed, job, asked["namespace"])
        done.append(f"submitted: {key}")
    tried = compare_worlds(
        snapshot, changed, tuple(done), lambda rows: [*choose_rows(rows), *filter(None, [key])]
    )
    effected = tried.difference.effected
    kept = set(choose_rows(effected))
    document = tried_to_dict(snapshot, tried, [each for each in effected if each.key in kept])
    counts = Counter((each.key.partition("/")[0], str(each.effect)) for each in effected)
    document["counts"] = [
        {"namespace": namespace, "effect": effect, "count": count}
        for (namespace, effect), count in counts.items()
    ]
    if key:
        found = workload_to_dict(tried.after.workloads[key], snapshot)
        document["job"] = {**found, "object": changed.of("Workload")[key]}
    return document


def choose_rows(effected: Sequence[Effected]) -> list[str]:
    """Return the keys of the Workloads to tell about: some of every namespace, in their order."""
    of_namespace: Counter[str] = Counter()
    kept: list[str] = []
    for each in effected:
        namespace = each.key.partition("/")[0]
        of_namespace[namespace] += 1
        if of_namespace[namespace] <= ROWS_OF_A_NAMESPACE and len(kept) < ROWS:
            kept.append(each.key)
    return kept


def _refuse_file(_snapshot: object, _file: str) -> Sequence[str]:
    from multiqueue.whatif.change_request import ChangeError

    raise ChangeError("the manager has no file of yours; give the manifest in spec.job")


def run() -> NoReturn:
    """Answer, and end at once: freeing the objects one by one would take longer than asking."""
    main()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    run()
