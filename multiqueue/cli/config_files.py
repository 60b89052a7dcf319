"""The manager's configuration, from ``--config`` or ``multiqueue config check``."""

from __future__ import annotations

import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from multiqueue.cli.errors import UsageProblem

if TYPE_CHECKING:
    from multiqueue.api.config import Configuration


def read_config_text(source: str) -> str:
    """Return the text of a file; ``-`` is standard input.

    Raises:
        UsageProblem: the file cannot be read.
    """
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageProblem(f'cannot read the configuration "{source}": {why}') from error


def read_config_file(path: str | None) -> Configuration | None:
    """Return the configuration of a file; None without one.

    Raises:
        UsageProblem: it cannot be read, or is invalid.
    """
    if path is None:
        return None
    from multiqueue.api.config import ConfigurationError, load_configuration

    try:
        return load_configuration(read_config_text(path))
    except ConfigurationError as error:
        raise UsageProblem(f'"{path}": {error}') from error


def parse_config(
    text: str, feature_gates: str | None, *, source: str = ""
) -> tuple[Configuration, list[str]]:
    """Return the configuration, and warnings about it.

    Args:
        text: The text of the file.
        feature_gates: The gates of the command line, ``NAME=true,...``; not allowed if the file
            has gates, too.
        source: The name of the file in messages.

    Raises:
        UsageProblem: both have gates, or those of the command line are malformed.
        ConfigurationError: lists every problem.
    """
    from multiqueue.api.config import build_configuration, load_configuration
    from multiqueue.api.config.warnings import find_warnings
    from multiqueue.lib import bounded_yaml

    config = load_configuration(text)
    raw = bounded_yaml.load(text) or {}
    if feature_gates is not None:
        if config.feature_gates:
            raise UsageProblem(
                f'feature gates are set in "{source}" and by --feature-gates; keep one of them'
            )
        config = build_configuration({**raw, "featureGates": _parse_gates(feature_gates)})
    return config, find_warnings(raw, config)


def check_worker_kubeconfig(path: str, proxies: Collection[str]) -> str:
    """Return why the manager would refuse a worker's kubeconfig; empty if it would accept it.

    Raises:
        UsageProblem: the file cannot be read.
    """
    from multiqueue.workers.kubeconfigs.credentials import KubeconfigRefusal, check_kubeconfig

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageProblem(f'cannot read the kubeconfig "{path}": {error.strerror}') from error
    found = check_kubeconfig(data, datetime.now(UTC), proxies=proxies)
    return (
        f'"{path}": {found.reason}: {found.message}' if isinstance(found, KubeconfigRefusal) else ""
    )


def _parse_gates(text: str) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    for pair in text.split(","):
        name, equals, value = pair.strip().partition("=")
        if not (name and equals) or value.lower() not in {"true", "false"}:
            raise UsageProblem(
                f'--feature-gates: "{pair}" is no gate; write NAME=true or NAME=false'
            )
        gates[name] = value.lower() == "true"
    return gates
