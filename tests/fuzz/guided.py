"""Have atheris look for texts and files that reach new code of the readers: `make fuzz-guided`.

The arguments are those of libFuzzer. What it finds is printed, and becomes a seed or an example.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["multiqueue"]):
    from tests.fuzz import test_files, test_texts

MAX_TEXT = 300
COMPILED = {"expression"}  # its compiler is no Python, so atheris sees nothing of it


def run_one(data: bytes, file: Path) -> None:
    """Give one reader what atheris made up."""
    given = atheris.FuzzedDataProvider(data)
    texts = [name for name in test_texts.NAMES if name not in COMPILED]
    chosen = given.ConsumeIntInRange(0, len(texts) + len(test_files.NAMES) - 1)
    if chosen < len(texts):
        test_texts.check(texts[chosen], given.ConsumeUnicodeNoSurrogates(MAX_TEXT))
    else:
        name = test_files.NAMES[chosen - len(texts)]
        test_files.check(name, file, given.ConsumeBytes(given.remaining_bytes()))


def main() -> None:
    """Run until something is found, or for as long as the arguments say."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file.yaml"
        atheris.Setup(sys.argv, lambda data: run_one(data, file))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
