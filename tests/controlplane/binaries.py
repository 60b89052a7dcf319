"""The programs of a real control plane: where they are, and how they are built.

They are named as Go modules at fixed versions (``tools/``), built by ``make controlplane`` with
the machine's Go into a cache outside the repository, under a name that changes with the versions.
KUBEBUILDER_ASSETS (a folder as envtest makes it) is looked at first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
KUBERNETES = "v1.36.3"
KUEUE = "v0.19.0"
KUBERNETES_FLAGS = (
    f"-X k8s.io/component-base/version.gitVersion={KUBERNETES}"
    " -X k8s.io/component-base/version.gitMajor=1"
    " -X k8s.io/component-base/version.gitMinor=36"
)
HOW_TO_GET_THEM = (
    "run `make controlplane` (needs Go 1.26 or newer; minutes, once),"
    " or name a folder with the programs in KUBEBUILDER_ASSETS"
)


@dataclass(frozen=True, slots=True)
class Program:
    """A program and the Go package that it is built from."""

    name: str
    module: str
    """The folder of its go.mod in ``tools/``."""
    package: str
    flags: str = ""
    """Flags of the linker: the version that it says."""
    tags: str = ""
    """Tags of the build: parts to leave out."""
    cache: str = "controlplane"
    """Programs of one cache are built anew together."""


PROGRAMS = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program(
        "kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"
    ),
    Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    Program(
        "kueue",
        "kueue",
        "sigs.k8s.io/kueue/cmd/kueue",
        f"-X sigs.k8s.io/kueue/pkg/version.GitVersion={KUEUE}",
    ),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Program(
        "helm",
        "helm",
        "helm.sh/helm/v3/cmd/helm",
        "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1"
        " -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36"
        " -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1"
        " -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=36",
        cache="helm",
    ),
    Program("etcdctl", "etcdtools", "go.etcd.io/etcd/etcdctl/v3", cache="etcdtools"),
    Program("etcdutl", "etcdtools", "go.etcd.io/etcd/etcdutl/v3", cache="etcdtools"),
    # Finding targets in clouds is most of what promtool is built from, and no rule needs it.
    Program(
        "promtool",
        "promtool",
        "github.com/prometheus/prometheus/cmd/promtool",
        tags="remove_all_sd",
        cache="promtool",
    ),
)
CACHES = "controlplane", "etcdtools", "helm", "promtool"


def cache_folder(cache: str = "controlplane") -> Path:
    """Where ``make controlplane`` puts what it builds; another one for other versions."""
    modules = {program.module for program in PROGRAMS if program.cache == cache}
    return versioned_folder(cache, sorted(modules))


def versioned_folder(name: str, modules: Iterable[str]) -> Path:
    """The cache of what is made from these modules in ``tools/`` at their present versions."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update((TOOLS / module / "go.sum").read_bytes())
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "multiqueue" / name / digest.hexdigest()[:12]


def find(name: str) -> Path | None:
    """The program of this name; None: it is not on this machine."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(assets)] if assets else []
    for folder in (*folders, *map(cache_folder, CACHES)):
        if os.access(folder / name, os.X_OK):
            return folder / name
    return None


def get(name: str) -> Path:
    """The program of this name.

    Raises:
        FileNotFoundError: It is not on this machine; says how to get it.
    """
    found = find(name)
    if found is None:
        raise FileNotFoundError(f"no {name} on this machine: {HOW_TO_GET_THEM}")
    return found


def module_folder(module: str, path: str) -> Path:
    """Where the sources of a Go module lie, e.g. to read its CRDs.

    Args:
        module: The folder in ``tools/``, e.g. "kueue".
        path: The module's path, e.g. "sigs.k8s.io/kueue".
    """
    command = ["go", "list", "-m", "-f", "{{.Dir}}", path]
    listed = subprocess.run(command, cwd=TOOLS / module, check=True, capture_output=True, text=True)
    return Path(listed.stdout.strip())


def build(*names: str) -> Path:
    """Build what is missing; answer the folder of the control plane.

    Args:
        names: The programs to build; none: all.

    Raises:
        FileNotFoundError: There is no Go.
        subprocess.CalledProcessError: A program does not build.
    """
    wanted = [program for program in PROGRAMS if not names or program.name in names]
    missing = [program for program in wanted if find(program.name) is None]
    if missing and shutil.which("go") is None:
        raise FileNotFoundError("no go on this machine: install Go 1.26 or newer")
    for program in missing:
        folder = cache_folder(program.cache)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        sys.stderr.write(f"building {program.name} from {program.package} ...\n")
        unfinished = folder / f".{program.name}.{os.getpid()}"
        flags = f"-s -w {KUBERNETES_FLAGS if program.module == 'kubernetes' else program.flags}"
        options = ["-trimpath", f"-ldflags={flags}", f"-tags={program.tags}"]
        command = ["go", "build", *options, "-o", str(unfinished)]
        subprocess.run([*command, program.package], cwd=TOOLS / program.module, check=True)
        unfinished.rename(folder / program.name)
        sys.stderr.write(f"  {time.monotonic() - began:.0f} s\n")
    return cache_folder()
