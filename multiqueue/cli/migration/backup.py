"""The backup of an installation: one JSON file with a checksum, written at once or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from multiqueue.api.validation.access import mapping, text
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.migration.installation import Installation

FORMAT = "multiqueue.dev/backup-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup file has."""

    taken_at: str
    namespace: str
    installation: Installation


def write_backup(path: Path, found: Installation, *, namespace: str, now: datetime) -> str:
    """Write a backup; the file appears when it is complete. Return its checksum.

    Raises:
        UsageProblem: the file exists or cannot be written.
    """
    body = {
        "takenAt": now.isoformat(timespec="seconds"),
        "cluster": found.identity,
        "namespace": namespace,
        "holder": found.holder,
        "objects": [_without_noise(obj) for obj in found.objects],
    }
    checksum = _checksum(body)
    content = orjson.dumps(
        {"format": FORMAT, "sha256": checksum, **body}, option=orjson.OPT_INDENT_2
    )
    if path.exists():
        raise UsageProblem(f'"{path}" exists; a backup never replaces a file')
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".backup-", delete=False) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(path)
    except OSError as error:
        raise UsageProblem(f'cannot write "{path}": {error.strerror}') from error
    return checksum


def read_backup(path: Path) -> Backup:
    """Read a backup and check that it is whole.

    Raises:
        UsageProblem: it cannot be read, is no backup, or was changed.
    """
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise UsageProblem(f'cannot read the backup "{path}": {error.strerror}') from error
    except orjson.JSONDecodeError as error:
        raise UsageProblem(
            f'the backup "{path}" is broken: {error}; it was cut off or changed'
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageProblem(f'"{path}" is no backup of this command: format is not "{FORMAT}"')
    body = {key: value for key, value in content.items() if key not in {"format", "sha256"}}
    if _checksum(body) != content.get("sha256"):
        raise UsageProblem(
            f'the backup "{path}" is broken: its checksum is not that of its content, so it was '
            "changed after it was written"
        )
    objects = body.get("objects")
    if not isinstance(objects, list) or not all(map(_is_object, objects)):
        raise UsageProblem(
            f'the backup "{path}" is broken: objects: must be a list of objects, each with '
            "apiVersion, kind and metadata.name; this command did not write it"
        )
    installation = Installation(
        objects=tuple(objects),
        is_live=True,
        holder=text(body.get("holder")),
        identity=text(body.get("cluster")),
    )
    return Backup(
        taken_at=text(body.get("takenAt")),
        namespace=text(body.get("namespace")),
        installation=installation,
    )


def _is_object(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return False
    texts = (value.get("apiVersion"), value.get("kind"), value["metadata"].get("name"))
    return all(isinstance(each, str) and each for each in texts)


def check_cluster(backup: Backup, identity: str, namespace: str) -> None:
    """Raise if a backup is of another cluster or namespace.

    Raises:
        CliError: names both.
    """
    if backup.installation.identity != identity:
        raise CliError(
            f"the backup is of another cluster: the uid of kube-system is "
            f"{backup.installation.identity} there and {identity} here"
        )
    if backup.namespace != namespace:
        raise CliError(
            f'the backup is of the namespace "{backup.namespace}"; pass --system-namespace '
            f"{backup.namespace}"
        )


def _without_noise(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in mapping(obj, "metadata").items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
