"""What others can check a release by: sums, and a statement of what it was made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUMS, STATEMENT = "SHA256SUMS", "provenance.intoto.json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://multiqueue.dev/release/make/v1"
LOCAL_BUILDER = "https://multiqueue.dev/release/local-machine"
"""The builder, unless RELEASE_BUILDER names another: a machine that nobody vouches for."""


def read_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file below a folder, by its path there; not of sums and statement."""
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    named = {each.relative_to(folder).as_posix(): each for each in files}
    return {
        name: hashlib.sha256(each.read_bytes()).hexdigest()
        for name, each in named.items()
        if name not in (SUMS, STATEMENT)
    }


def build_statement(
    outputs: Mapping[str, str],
    *,
    commit: str,
    version: str,
    locks: Mapping[str, str],
    builder: str = LOCAL_BUILDER,
) -> dict[str, Any]:
    """An in-toto statement with SLSA provenance, not signed.

    It has no times, so it is the same for the same outputs.

    Args:
        outputs: SHA-256 of each output, by path.
        commit: The commit that they were built from.
        version: Their version.
        locks: SHA-256 of each file that pins dependencies, by path.
        builder: The URI of whoever built them.
    """
    source = {"name": "multiqueue", "digest": {"gitCommit": commit}}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in sorted(outputs.items())
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": "make release", "version": version},
                "resolvedDependencies": [
                    source,
                    *(
                        {"name": name, "digest": {"sha256": digest}}
                        for name, digest in sorted(locks.items())
                    ),
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def write_statement(folder: Path, statement: Mapping[str, Any]) -> None:
    """Write the statement, then the sums of everything, which ``sha256sum --check`` reads."""
    (folder / STATEMENT).write_text(json.dumps(statement, indent=2) + "\n")
    sums = read_digests(folder)
    sums[STATEMENT] = hashlib.sha256((folder / STATEMENT).read_bytes()).hexdigest()
    lines = [f"{digest}  {name}\n" for name, digest in sorted(sums.items())]
    (folder / SUMS).write_text("".join(lines))
