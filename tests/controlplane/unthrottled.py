"""Upstream Kueue whose clients of workers are not held back, for a fair comparison of speed.

0.19 gives them client-go's default of five requests a second, and no setting for that. The program
is built from the same module with that one line replaced.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.controlplane import binaries

QPS = 1000
MODULE = "sigs.k8s.io/kueue"
LEFT_OUT = ("site", "test", "hack", "keps", "docs", "examples")
SOURCE = "pkg/controller/admissionchecks/multikueue/multikueuecluster.go"
LINE = "\treturn clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig)\n"
INSTEAD = f"""\
\tconfig, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig)
\tif err == nil {{
\t\tconfig.QPS, config.Burst = {QPS}, {QPS}
\t}}
\treturn config, err
"""


def get() -> Path:
    """The program; built where it is not in the cache yet, which takes minutes.

    Raises:
        FileNotFoundError: There is no Go.
        subprocess.CalledProcessError: It does not build.
    """
    folder = binaries.cache_folder()
    program = folder / "kueue-unthrottled"
    if program.exists():
        return program
    module = binaries.module_folder("kueue", MODULE)
    unfinished = program.with_suffix(".unfinished")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        copy = Path(temporary) / "kueue"
        shutil.copytree(module, copy, copy_function=shutil.copyfile, ignore=_not_needed)
        for each in (copy, *copy.rglob("*")):
            if each.is_dir():
                each.chmod(0o755)  # nobody may write to those of the module cache
        text = (copy / SOURCE).read_text()
        assert text.count(LINE) == 1, f"{SOURCE} has changed"
        (copy / SOURCE).write_text(text.replace(LINE, INSTEAD))
        tools = binaries.TOOLS / "kueue"
        modules = Path(temporary) / "go.mod"
        shutil.copyfile(tools / "go.sum", modules.with_suffix(".sum"))
        replace = f"replace {MODULE} => {copy}\n"
        modules.write_text((tools / "go.mod").read_text() + replace)
        command = ["go", "build", "-trimpath", f"-modfile={modules}", "-ldflags=-s -w", "-o"]
        subprocess.run([*command, str(unfinished), f"{MODULE}/cmd/kueue"], cwd=tools, check=True)
    unfinished.rename(program)
    return program


def _not_needed(folder: str, names: list[str]) -> list[str]:
    """The folders of the module that no program is built from."""
    return [name for name in names if Path(folder).name.startswith("kueue@") and name in LEFT_OUT]
