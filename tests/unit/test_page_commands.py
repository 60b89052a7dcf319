"""The reader of commands on pages, and how it compares what they print."""

from __future__ import annotations

import pytest

from tests.integration.page_commands import NO_MARK, PageCommand, agrees, read_blocks

PAGE = """
<!-- run -->
```console
$ apply -f - <<EOF
kind: Job
EOF
$ get jobs
NAME   AGE
a      4s
```
<!-- run after: begin -->
```console
$ end
error: it has ended
```
<!-- not run: it needs helm -->
```sh
helm install
```
```sh
one \\
  two
```
```yaml
kind: Job
```
"""


def test_blocks_have_their_commands_marks_and_output() -> None:
    shown, after, helm, unmarked = read_blocks(PAGE)
    assert shown.commands == [
        PageCommand(text="apply -f - <<EOF\nkind: Job\nEOF", prints=None),
        PageCommand(text="get jobs", prints=["NAME   AGE", "a      4s"]),
    ]
    assert [command.text for command in after.commands] == ["begin", "end"]
    assert [command.fails for command in after.commands] == [False, True]
    assert (shown.reason, helm.reason, unmarked.reason) == ("", "it needs helm", NO_MARK)
    assert unmarked.commands == [PageCommand(text="one \\\n  two", prints=None)]


@pytest.mark.parametrize(
    ("printed", "wanted", "agree"),
    [
        pytest.param("a  12s\nb  3s", ["a 4s", "b 1m30s"], True, id="other times and spaces"),
        pytest.param("a\nx\ny\nb", ["a", "...", "b"], True, id="any lines between"),
        pytest.param("train on h100", ["train on ..."], True, id="any text"),
        pytest.param("pod-6ad3c on h100", ["pod-lufqp on h100"], True, id="another random name"),
        pytest.param("pod-5452d on h100", ["pod-lufqp on h100"], True, id="a name like an age"),
        pytest.param("pod-6ad3c on h100", ["pod-lufqp on a100"], False, id="another place"),
        pytest.param("b\na", ["a", "b"], False, id="another order"),
        pytest.param("a 2 of 4", ["a 3 of 4"], False, id="another number"),
        pytest.param("", ["a"], False, id="nothing"),
    ],
)
def test_printed_lines_are_compared_loosely(
    printed: str,
    wanted: list[str],
    agree: bool,
) -> None:
    assert agrees(printed, wanted) is agree
