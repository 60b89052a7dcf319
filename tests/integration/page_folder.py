"""A folder that looks like a clone of the repository after ``make demo``: its pages, and .venv."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ("multiqueue", "pip", "pytest")


def make_folder(folder: Path) -> dict[str, str]:
    """Fill an empty folder; return the environment of the commands on the pages."""
    for name in ("config", "docs"):
        (folder / name).symlink_to(ROOT / name)
    make_venv(folder / ".venv")
    (folder / ".demo").mkdir()
    return {
        **os.environ,
        "PATH": f"{folder / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(folder / ".demo/manager.kubeconfig"),
        "PIP_NO_INDEX": "1",  # what is built here needs setuptools only, which is installed
        "PIP_NO_BUILD_ISOLATION": "0",  # pip means: no isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def make_venv(target: Path) -> None:
    """Make an environment that has what this one has, and can get more without changing it."""
    venv.create(target, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    ours = target / "lib" / version / "site-packages" / "outer.pth"
    ours.write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    for name in PROGRAMS:
        program = shutil.which(name, path=str(Path(sys.executable).parent))
        assert program, f"{name} is not installed"
        _, _, text = Path(program).read_text().partition("\n")
        (target / "bin" / name).write_text(f"#!{target / 'bin/python'}\n{text}")
        (target / "bin" / name).chmod(0o755)
