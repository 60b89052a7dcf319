"""Write docs/reference: python -m tools.reference."""

from __future__ import annotations

from tools.reference.pages import FOLDER, build_all

for each in build_all():
    (FOLDER / each.name).write_text(each.text)
    for name in each.undescribed:
        print(f"{each.name}: {name} has no description")
