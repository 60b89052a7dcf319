"""Upstream's configuration as this program reads it, with its behaviour kept. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.config import Configuration, ConfigurationError, Gate, build_configuration
from multiqueue.api.config.dump import dump_configuration
from multiqueue.api.config.gate_history import HISTORY
from multiqueue.api.config.gates import GATES, WHY, Stage
from multiqueue.api.config.types import V1BETA1, V1BETA2
from multiqueue.api.config.warnings import find_warnings
from multiqueue.cli.migration.findings import MigrationFinding, blocks, tells, warns
from multiqueue.cli.migration.installation import Installation
from multiqueue.lib import bounded_yaml

Version = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The configuration for this program.

    Attributes:
        wire: The file, v1beta2; empty if it has errors.
        config: What is read from it; None if it has errors.
    """

    wire: Mapping[str, Any]
    config: Configuration | None
    findings: tuple[MigrationFinding, ...]


def translate(found: Installation) -> Translation:
    """Translate the configuration of an installation.

    Gates of the command line become a section of the file. A gate whose default was another one in
    upstream's version is set to that default, so that the behaviour stays.
    """
    findings: list[MigrationFinding] = []
    try:
        raw = bounded_yaml.load(found.config_text or "") or {}
    except bounded_yaml.YamlError as error:
        return _failed(findings, (f"not YAML: {error.problem}",))
    if not isinstance(raw, dict):
        return _failed(findings, ("the file must hold a mapping",))
    given = raw.get("featureGates")
    gates = {**(given if isinstance(given, dict) else {}), **found.flagged_gates}
    if found.version is not None:
        findings.extend(_keep_defaults(found.version, gates))
    wire = {"apiVersion": V1BETA2, "kind": "Configuration", **raw}
    if gates:
        wire["featureGates"] = gates
    try:
        config = build_configuration(wire)
    except ConfigurationError as error:
        return _failed(findings, error.errors)
    findings.extend(
        warns("configuration", warning.partition(":")[0], warning.partition(": ")[2])
        for warning in find_warnings(wire, config)
    )
    if wire["apiVersion"] == V1BETA1:
        wire = dump_configuration(config)
    return Translation(wire=wire, config=config, findings=tuple(findings))


def newest_known() -> Version:
    """Return the newest version of upstream that the table of gates knows."""
    return max(step[0] for text in HISTORY.values() for step in _steps(text))


def default_in(gate: Gate, version: Version) -> bool | None:
    """Return a gate's default in a version of upstream; None if it had no such gate."""
    before = [on for since, on in _steps(HISTORY[gate]) if since <= version]
    return before[-1] if before else None


def _keep_defaults(version: Version, gates: dict[str, Any]) -> Iterator[MigrationFinding]:
    told = f"{version[0]}.{version[1]}"
    for gate, spec in GATES.items():
        then = default_in(gate, version)
        if gate.value in gates or then is None or then == spec.default:
            continue
        about, state = f"featureGates.{gate}", "on" if then else "off"
        if spec.adjustable:
            gates[gate.value] = then
            what = f"is {state} by default in {told} and not here; the take-over sets it so"
            yield tells("gates", about, what)
        elif spec.stage is not Stage.GA and not spec.alike:
            why = WHY.get(gate, "the other setting is not built")
            what = f"is {state} by default in {told} and cannot be {state} here: {why}"
            yield (blocks if then else warns)("gates", about, what)


def _steps(history: str) -> Iterator[tuple[Version, bool]]:
    """Yield versions and defaults from ``0.4 Alpha=false, 0.5 Beta=true``."""
    for step in history.split(", "):
        version, _, rest = step.partition(" ")
        major, _, minor = version.partition(".")
        yield (int(major), int(minor)), rest.split("=")[1].startswith("true")


def _failed(findings: list[MigrationFinding], problems: tuple[str, ...]) -> Translation:
    todo = "change it in upstream's configuration first, and see that all still works"
    for problem in problems:
        about, _, what = problem.partition(": ")
        findings.append(blocks("configuration", about, what or about, todo))
    return Translation(wire={}, config=None, findings=tuple(findings))
