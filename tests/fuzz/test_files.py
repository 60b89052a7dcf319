"""Each file that commands read, cut, spoilt or written by somebody else: its own error, soon."""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.config import ConfigurationError, load_configuration
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.importing.mapping import read_rules
from multiqueue.cli.manifests import read_manifests
from multiqueue.cli.migration.backup import FORMAT, read_backup
from multiqueue.cli.migration.read import read_files
from multiqueue.embedded.server.protobuf.envelope import decode_envelope
from multiqueue.embedded.server.protobuf.messages import UnknownMessageKind
from multiqueue.embedded.server.protobuf.wire import Malformed
from multiqueue.lib import bounded_yaml
from multiqueue.plugins.recording import Decision, read_recording, write_recording
from multiqueue.plugins.testing import make_sample_views
from multiqueue.projection.fleet import FleetError, load_fleet
from multiqueue.simulation.fleet_file import FleetFileError
from multiqueue.simulation.fleet_file import load_fleet as load_simulated_fleet
from multiqueue.simulation.traces.csv_loader import TraceError, load_csv
from multiqueue.whatif.snapshot import SnapshotError, pack, unpack
from tests.fuzz.answers import JSON, cuts, encode, mutants
from tests.fuzz.runs import LONG, SHORT
from tests.unit.whatif.worlds import make_job, make_snapshot

SECONDS = 2.0
"""Of CPU time."""
ROOT = Path(__file__).parents[2]
QUEUE: dict[str, Any] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "q", "labels": {"a": "b"}},
    "spec": {"namespaceSelector": {}, "queueingStrategy": "StrictFIFO"},
}
BACKUP = {
    "takenAt": "2026-01-01T00:00:00+00:00",
    "cluster": "uid",
    "namespace": "kueue-system",
    "holder": "",
    "objects": [QUEUE],
}
RULES = [
    {"match": {"labels": {"a": "b"}, "namespace": "n"}, "toLocalQueue": "q"},
    {"match": {"priorityClassName": "p"}, "skip": True},
]
RESOURCES = [{"name": "cpu", "nominalQuota": "1"}]
GROUP = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": RESOURCES}]}
FLEET = {
    "apiVersion": "config.multiqueue.dev/v1alpha1",
    "kind": "FleetConfiguration",
    "kinds": ["ClusterQueue"],
    "workers": [
        {
            "name": "w",
            "flavors": [{"name": "f", "spec": {"nodeLabels": {"a": "b"}}}],
            "clusterQueues": [{"name": "q", "serves": ["q"], "spec": {"resourceGroups": [GROUP]}}],
        }
    ],
}
SIMULATED = {
    "clusters": [{"name": "west", "gpus": {"a100": 64}, "prices": {"a100": 1.8}}],
    "speeds": {"training": {"h100": 2.1}},
    "alternatives": {"h100": 0.5},
    "preemption": "priority",
    "managerQuotaPercent": 100,
    "watts": {"a100": 400},
}
TRACE = (
    b"job_id,user,vc,gpu_num,submit_time,duration\n"
    b"1,a,x,8,2020-04-01 00:00:00,60\n2,b,y,1,2020-04-01 00:01:00,9.5\n"
)
MAGIC = b"k8s\x00"
ENVELOPE = MAGIC + b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x07\x0a\x05\x0a\x03abc"


def seal(body: Any) -> bytes:
    """A backup whose checksum is right, whatever is in it."""
    try:
        checksum = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    except TypeError:
        return encode(body)
    fields = body if isinstance(body, dict) else {"objects": body}
    return encode({"format": FORMAT, "sha256": checksum, **fields})


def write_yaml(value: Any) -> bytes:
    try:
        return yaml.safe_dump(orjson.loads(encode(value)), allow_unicode=True).encode()
    except (orjson.JSONDecodeError, RecursionError, yaml.YAMLError):
        return encode(value)


def read_snapshot(path: Path) -> Any:
    snapshot = unpack(path.read_bytes(), "file")
    return snapshot.workloads(), snapshot.read_configuration()


def snapshot_lines() -> list[Any]:
    made = make_snapshot(make_job("training", "first", 4))
    return [orjson.loads(line) for line in gzip.decompress(pack(made)).splitlines()]


def write_lines(lines: Any) -> bytes:
    return b"\n".join(map(encode, lines)) if isinstance(lines, list) else encode(lines)


def recording_lines() -> list[Any]:
    decisions = [Decision(dispatcher="score", view=view) for view in list(make_sample_views())[:2]]
    return [orjson.loads(line) for line in write_recording(decisions)]


@dataclass(frozen=True, slots=True)
class FileReader:
    """A reader of a file, its documented errors, a right content and how that is written."""

    read: Callable[[Path], Any]
    errors: tuple[type[Exception], ...]
    seeds: tuple[Any, ...]
    write: Callable[[Any], bytes] = write_yaml


def by_text(read: Callable[[str], Any]) -> Callable[[Path], Any]:
    return lambda path: read(path.read_bytes().decode(errors="replace"))


def read_all(lines: Iterable[bytes]) -> list[Decision]:
    return list(read_recording(lines))


CONFIGURATION = yaml.safe_load((ROOT / "config/manager/controller_manager_config.yaml").read_text())
READERS = {
    "backup": FileReader(read_backup, (UsageProblem,), (BACKUP,), seal),
    "backup that was changed": FileReader(read_backup, (UsageProblem,), (BACKUP,), encode),
    "snapshot": FileReader(
        read_snapshot,
        (SnapshotError,),
        (snapshot_lines(),),
        lambda lines: gzip.compress(write_lines(lines)),
    ),
    "configuration": FileReader(
        by_text(load_configuration), (ConfigurationError,), (CONFIGURATION,)
    ),
    "fleet to project": FileReader(by_text(load_fleet), (FleetError,), (FLEET,)),
    "fleet to simulate": FileReader(load_simulated_fleet, (FleetFileError,), (SIMULATED,)),
    "trace": FileReader(
        lambda path: load_csv(path, skip=0, count=9, teams=2, largest=8),
        (TraceError,),
        (TRACE,),
        lambda value: value if isinstance(value, bytes) else encode(value),
    ),
    "map of an import": FileReader(
        lambda path: read_rules(bounded_yaml.load(path.read_bytes()), "file"),
        (UsageProblem, bounded_yaml.YamlError),
        (RULES,),
    ),
    "manifests": FileReader(
        lambda path: read_manifests(str(path)),
        (UsageProblem,),
        (QUEUE, {"apiVersion": "v1", "kind": "List", "items": [QUEUE]}),
    ),
    "manifests to migrate": FileReader(
        read_files, (UsageProblem,), (QUEUE, {"managerConfig": {"controllerManagerConfigYaml": ""}})
    ),
    "recording": FileReader(
        lambda path: read_all(path.read_bytes().splitlines()),
        (ValueError,),
        (recording_lines(),),
        write_lines,
    ),
    "protobuf": FileReader(
        lambda path: decode_envelope(path.read_bytes()),
        (Malformed, UnknownMessageKind),
        (ENVELOPE,),
        lambda value: value if isinstance(value, bytes) else MAGIC + encode(value),
    ),
}
NAMES = sorted(READERS)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files") / "file.yaml"


@st.composite
def contents(draw: st.DrawFn, name: str) -> bytes:
    """A file that was right, with faults in its values or its bytes; or any value or bytes."""
    reader = READERS[name]
    seed = draw(st.sampled_from(reader.seeds))
    value = draw(st.just(seed) | mutants(seed) | mutants(seed) | JSON)
    return draw(cuts(reader.write(value)))


def check(name: str, file: Path, content: bytes) -> None:
    reader = READERS[name]
    file.write_bytes(content)
    began = time.process_time()
    try:
        reader.read(file)
    except reader.errors as error:
        check_error(error, content)
    assert time.process_time() - began < SECONDS, name


def check_error(error: Exception, content: bytes) -> None:
    """Whoever has such a file wrote it: a message may show its values, but not the same twice."""
    assert 0 < len(str(error)) < 5_000 + len(content)


@pytest.mark.parametrize("name", NAMES)
def test_a_right_file_is_read(name: str, file: Path) -> None:
    for seed in READERS[name].seeds:
        file.write_bytes(READERS[name].write(seed))
        if name != "backup that was changed":
            READERS[name].read(file)


@settings(SHORT, max_examples=20)
@given(st.data())
def test_any_file_is_read_or_refused(file: Path, data: st.DataObject) -> None:
    for name in NAMES:
        check(name, file, data.draw(contents(name)))


@pytest.mark.fuzz
@LONG
@given(st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), contents(name))))
def test_any_file_for_long(file: Path, case: tuple[str, bytes]) -> None:
    check(case[0], file, case[1])
