"""The definitions of all job kinds, as their own projects ship them.

They are named as Go modules at fixed versions (``tools/kinds/go.mod``). `make controlplane` copies
them into a cache outside the repository, under a name that changes with the versions. If the
registry of modules refuses one, the same files come from the commit that the registry names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiqueue.api.config.gates import find_gate_errors
from tests.controlplane.binaries import TOOLS, versioned_folder
from tests.controlplane.plane import RealControlPlane

GATES = ("SparkApplicationIntegration",)
"""Gates that kinds need."""
OUR_GATES = tuple(gate for gate in GATES if not list(find_gate_errors({gate: True})))
"""Those of them that can be switched on here."""
NOT_FOR_JOBS = ["kube-system", "kueue-system"]
"""Namespaces whose pods no manager may hold."""
BUILT_IN = ("batch/job", "pod", "deployment", "statefulset")
"""Frameworks of the kinds that every API server has."""


@dataclass(frozen=True, slots=True)
class Source:
    """A module and the definitions in it that are wanted."""

    module: str
    folder: str
    names: tuple[str, ...]
    """Of definitions of job kinds: "jobsets.jobset.x-k8s.io"."""
    others: tuple[str, ...] = ()
    """Of definitions of kinds that jobs refer to."""
    file: str = "{group}_{plural}.yaml"
    """How its files are called."""
    modules: str = "kinds"
    """The folder of ``tools/`` that names its version."""

    @property
    def cache(self) -> Path:
        """Where `make controlplane` puts its definitions; another one for other versions."""
        return versioned_folder(self.modules, [self.modules])


_KUBEFLOW = ("paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs", "jaxjobs")
SOURCES = (
    Source("sigs.k8s.io/jobset", "config/components/crd/bases", ("jobsets.jobset.x-k8s.io",)),
    # Its mpijobs are left out: an older version of those of mpi-operator, under the same name.
    Source(
        "github.com/kubeflow/training-operator",
        "manifests/base/crds",
        tuple(f"{plural}.kubeflow.org" for plural in _KUBEFLOW),
    ),
    Source("github.com/kubeflow/mpi-operator", "manifests/base", ("mpijobs.kubeflow.org",)),
    Source(
        "github.com/ray-project/kuberay/ray-operator",
        "config/crd/bases",
        ("rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io"),
    ),
    Source("sigs.k8s.io/lws", "config/crd/bases", ("leaderworkersets.leaderworkerset.x-k8s.io",)),
    Source(
        "github.com/project-codeflare/appwrapper",
        "config/crd/bases",
        ("appwrappers.workload.codeflare.dev",),
    ),
    Source(
        "github.com/kubeflow/trainer/v2",
        "manifests/base/crds",
        ("trainjobs.trainer.kubeflow.org",),
        ("trainingruntimes.trainer.kubeflow.org", "clustertrainingruntimes.trainer.kubeflow.org"),
    ),
    Source(
        "github.com/kubeflow/spark-operator/v2",
        "config/crd/bases",
        ("sparkapplications.sparkoperator.k8s.io",),
    ),
)
DECLARED = (
    Source(
        "github.com/argoproj/argo-workflows/v3",
        "manifests/base/crds/minimal",
        ("workflows.argoproj.io",),
        modules="declared",
    ),
    Source(
        "github.com/tektoncd/pipeline",
        "config/300-crds",
        ("pipelineruns.tekton.dev",),
        file="300-{singular}.yaml",
        modules="declared",
    ),
    Source(
        "github.com/kserve/kserve",
        "config/crd/full",
        ("inferenceservices.serving.kserve.io",),
        modules="declared",
    ),
)
"""Of kinds that config/samples-jobkinds declares."""
CRDS = tuple(name for source in SOURCES for name in (*source.names, *source.others))
"""The names of all definitions."""


def crds_folder() -> Path:
    """Where `make controlplane` puts the definitions; another one for other versions."""
    return versioned_folder("kinds", ["kinds"])


def find_crds(objects: Any) -> set[str]:
    """Return the names of the definitions that objects need, at whatever depth they lie."""
    if isinstance(objects, list):
        return set().union(*map(find_crds, objects))
    if not isinstance(objects, dict):
        return set()
    group = str(objects.get("apiVersion", "")).rpartition("/")[0]
    own = {f"{str(objects.get('kind', '')).lower()}s.{group}"}
    return own.intersection(CRDS).union(*map(find_crds, objects.values()))


def find_frameworks(crds: Iterable[str]) -> list[str]:
    """Return the frameworks of the kinds that a server with these definitions has."""
    jobs = {name for source in SOURCES for name in source.names}
    pairs = (name.split("s.", 1) for name in sorted(jobs.intersection(crds)))
    return [*BUILT_IN, *(f"{group}/{kind}" for kind, group in pairs)]


def settings_for(crds: Iterable[str], gates: Iterable[str] = GATES) -> dict[str, Any]:
    """Return sections of a Configuration that enable all kinds of a server with these definitions.

    Args:
        crds: Their names.
        gates: Those of kinds that the manager has: GATES or OUR_GATES.
    """
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": NOT_FOR_JOBS}
    return {
        "integrations": {"frameworks": find_frameworks(crds)},
        "managedJobsNamespaceSelector": {"matchExpressions": [outside]},
        "featureGates": {"VisibilityOnDemand": False} | dict.fromkeys(gates, True),
    }


def install(plane: RealControlPlane, crds: Iterable[str]) -> None:
    """Have a control plane serve the kinds of these definitions.

    Raises:
        FileNotFoundError: Some are not on this machine.
    """
    files = list_crd_files(crds)
    if files:
        plane.kubectl("create", *(f"--filename={path}" for path in files))
        plane.wait_until_served()


def find_missing(names: Iterable[str] = CRDS) -> set[str]:
    """Return the definitions that are not on this machine: what needs them is left out."""
    return {name for name in names if not _path(name).exists()}


def list_crd_files(names: Iterable[str] = CRDS) -> list[Path]:
    """Return the files of definitions.

    Raises:
        FileNotFoundError: Some are not on this machine; says which, and how to get them.
    """
    files = {name: _path(name) for name in sorted(names)}
    missing = [name for name, path in files.items() if not path.exists()]
    if missing:
        raise FileNotFoundError(
            f"no definitions of {', '.join(missing)} in {crds_folder()}: run `make controlplane`"
        )
    return list(files.values())


def download() -> str:
    """Copy what is missing into the cache; answer the folder, and what could not be had.

    A registry may refuse a module, and a repository may be out of reach. Then the kinds of that
    module are left out of what is tested with these definitions, which says so.
    """
    troubles = []
    for source in (*SOURCES, *DECLARED):
        if not all(_path(name).exists() for name in (*source.names, *source.others)):
            try:
                _copy(source)
            except (OSError, RuntimeError) as error:
                troubles.append(f"{source.module}: {error}")
    if troubles:
        reasons = "\n".join(troubles)
        return (
            f"{crds_folder()}: some definitions are missing, so their kinds are left out. Put them"
            f" there by hand, each as PLURAL.GROUP.yaml, or remove the reason and try again:\n"
            f"{reasons}"
        )
    return str(crds_folder())


def _copy(source: Source) -> None:
    source.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=source.cache) as temporary:
        found = _sources_of(source, Path(temporary)) / source.folder
        for name in (*source.names, *source.others):
            plural, _, group = name.partition(".")
            unfinished = Path(temporary) / name
            file = source.file.format(group=group, plural=plural, singular=plural.removesuffix("s"))
            shutil.copyfile(found / file, unfinished)
            unfinished.rename(_path(name))


def _path(name: str) -> Path:
    source = next((each for each in DECLARED if name in each.names), SOURCES[0])
    return source.cache / f"{name}.yaml"


def _sources_of(source: Source, temporary: Path) -> Path:
    """The folder with a module's sources: from the registry, or else from its repository."""
    module = source.module
    command = ["go", "mod", "download", "-json", module]
    folder = TOOLS / source.modules
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    answer = json.loads(done.stdout or "{}")
    if "Dir" in answer:
        return Path(answer["Dir"])
    if "Info" not in answer:
        raise RuntimeError(f"go has no module {module}: {answer.get('Error') or done.stderr}")
    origin = json.loads(Path(answer["Info"]).read_text())["Origin"]
    return _clone(origin, temporary / "clone") / origin.get("Subdir", "")


def _clone(origin: dict[str, Any], folder: Path) -> Path:
    """Check out the commit of a module's version from its repository."""
    git = ["git", "-C", str(folder)]
    commands = (
        ["git", "init", "--quiet", str(folder)],
        [*git, "fetch", "--quiet", "--depth=1", origin["URL"], origin["Ref"]],
        [*git, "checkout", "--quiet", origin["Hash"]],
    )
    for command in commands:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
        if done.returncode:
            raise RuntimeError(
                f"neither the registry of modules nor {origin['URL']} has {origin['Ref']}:"
                f" {done.stderr.strip()}"
            )
    return folder
