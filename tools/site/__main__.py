"""``make docs``: build the documentation site, and refuse anything that a reader would stumble on.

MkDocs is strict here: a page without a place in the navigation, a link or an anchor that leads
nowhere is an error.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.site.tree import ROOT, build_tree


def main() -> int:
    """Build the site into a folder; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the site is written")
    target = parser.parse_args().folder.resolve()
    with TemporaryDirectory() as folder:
        pages = Path(folder) / "pages"
        build_tree(pages)
        settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
        (Path(folder) / "mkdocs.yml").write_text(settings, encoding="utf-8")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
        done = subprocess.run([*command, "--site-dir", str(target)], cwd=folder, check=False)
    if done.returncode == 0:
        sys.stdout.write(f"{target}/index.html\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
