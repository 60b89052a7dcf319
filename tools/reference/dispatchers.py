"""docs/reference/dispatchers.md: all that a dispatcher is given and may answer, from its types."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

from multiqueue import plugins
from multiqueue.plugins import testing
from multiqueue.plugins.contract import PROMISES
from tools.reference.limits import LIMIT_HEAD, limit_rows
from tools.reference.markdown import ROOT, Reference, code, page, plain, read_constants, table

FOLDER = ROOT / "multiqueue"
HEAD = """Everything here is imported from `multiqueue.plugins`; it stays compatible. Times are
aware and in UTC. Units: cpu in milli, memory and storage in bytes, speeds, scores and money in
thousandths, everything else whole. New to this? Begin with
[the tutorial](../dispatchers/tutorial.md); [recipes](../dispatchers/how-to.md) show these names at
work. What the manager does around a dispatcher is
[on another page](../../dispatchers/README.md#what-the-core-does-for-every-dispatcher)."""
SECTIONS = (
    (
        "What it is",
        "A class with these members; a base class is not needed.",
        ("Dispatcher", "ChecksArguments"),
    ),
    (
        "What it is given",
        "`nominate` gets one `DispatchView`. It cannot be changed.",
        (
            "DispatchView",
            "WorkloadView",
            "PodSetView",
            "ReservedFlavor",
            "WeightedTerm",
            "Runtime",
            "Basis",
            "ClusterView",
            "CopyState",
            "ClusterClaim",
            "QueueView",
            "ResourceGroupView",
            "FlavorView",
            "QuotaView",
            "Forecast",
            "Prospect",
            "StartEstimate",
            "StoppedWorkload",
            "Round",
        ),
    ),
    (
        "What it may answer",
        "`nominate` returns one `Nomination`; `bind` makes one.",
        ("Nomination", "ClusterVerdict", "ScoreTerm", "QueuePlacement"),
    ),
    (
        "Comparing clusters",
        "What `survey` finds out, and the words in which it says it.",
        ("Survey", "Option", "Tier", "Fit", "Outlook", "Grade", "Limit"),
    ),
)
LIMITS = (
    ("dispatcher_host/policy.py", "BUDGET", "time for an answer: `timeBudget` of a profile"),
    ("dispatcher_host/policy.py", "LONGEST_BUDGET", "largest `timeBudget`"),
    ("dispatcher_host/loader.py", "BUDGET", "time for loading the package"),
    ("dispatcher_host/runner.py", "FIRST_PAUSE", "pause after it hung or ended; doubles each time"),
    ("dispatcher_host/runner.py", "LONGEST_PAUSE", "longest pause"),
    ("dispatcher_host/isolation/host.py", "MEMORY", "address space of its process, in bytes"),
    ("dispatcher_host/isolation/frames.py", "MOST_BYTES", "one message to or from its process"),
    ("dispatcher_host/answer.py", "SOONEST", "earliest `ask_again_at`, from now"),
    ("dispatcher_host/answer.py", "MAX_TEXT", "characters of a reason or note"),
    ("dispatcher_host/answer.py", "MAX_ITEMS", "names or verdicts in one answer"),
    ("dispatcher_host/answer.py", "MAX_NUMBER", "absolute value of a number"),
    ("dispatcher_host/conduct.py", "EVERY", "answers per check of its conduct"),
    ("plugins/kept.py", "MOST_KEPT", "objects kept between two calls"),
)
"""Module, constant and what it limits."""
SETS = (
    (
        "Errors",
        "dispatcher_host/answer.py",
        "Failure",
        """Why there is no answer: the label `reason` of `multiqueue_dispatch_failures_total`.
The Workload stays pending with the reason in words, or the profile's fallback decides.""",
    ),
    (
        "Broken promises",
        "dispatcher_host/conduct.py",
        "Misconduct",
        "The label `kind` of `multiqueue_dispatch_misconduct_total`. The answers still count.",
    ),
)


def build() -> Reference:
    """Return the page."""
    missing: list[str] = []
    parts: list[str] = []
    for title, words, names in SECTIONS:
        parts += [f"## {title}", words]
        for name in names:
            parts += _describe_type(getattr(plugins, name), missing)
    functions = [n for n in plugins.__all__ if inspect.isfunction(getattr(plugins, n))]
    parts += ["## Functions", *_describe_functions(functions, plugins)]
    builders = [n for n in testing.__all__ if inspect.isfunction(getattr(testing, n))]
    parts += ["## For tests", "Imported from `multiqueue.plugins.testing`."]
    parts += [*_describe_functions(builders, testing), "### Contract"]
    parts += ["`assert_dispatcher_contract` and `multiqueue dispatcher test` check this:"]
    parts += [table(["promise", "in words"], [[code(k), v] for k, v in PROMISES.items()])]
    parts += ["## Limits", table(LIMIT_HEAD, limit_rows(LIMITS, missing))]
    for title, module, name, words in SETS:
        rows = list(_members(module, name, missing))
        parts += [f"## {title}", words, table(["name", "what it means"], rows)]
    text = page("Dispatchers", "`multiqueue/plugins`", HEAD, *parts)
    return Reference(name="dispatchers.md", text=text, undescribed=tuple(missing))


def undocumented() -> set[str]:
    """Return the classes that authors may import and that no section has."""
    shown = {name for _, _, names in SECTIONS for name in names}
    classes = {name for name in plugins.__all__ if inspect.isclass(getattr(plugins, name))}
    return classes - shown


def _describe_type(kind: type, missing: list[str]) -> Iterator[str]:
    yield f"### {kind.__name__}"
    intro, texts = _read_docstring(inspect.getdoc(kind) or "")
    yield intro
    if issubclass(kind, Enum):
        source = Path(inspect.getfile(kind))
        docs = {c.name: c.doc for c in read_constants(source) if c.owner == kind.__name__}
        missing += [f"{kind.__name__}.{m.name}" for m in kind if not docs[m.name]]
        rows = [[code(f"{kind.__name__}.{m.name}"), code(str(m.value)), docs[m.name]] for m in kind]
        yield table(["name", "value", "what it means"], rows)
        return
    if dataclasses.is_dataclass(kind):
        fields = dataclasses.fields(kind)
        missing += [f"{kind.__name__}.{f.name}" for f in fields if not texts.get(f.name)]
        rows = [
            [code(f.name), code(str(f.type)), _default(f), texts.get(f.name, "")] for f in fields
        ]
        yield table(["field", "type", "default", "what it says"], rows)
    members = list(_list_members(kind))
    missing += [f"{kind.__name__}.{signature}" for signature, words in members if not words]
    if members:
        yield table(["member", "what it is"], members)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
        text = str(value) if isinstance(value, Enum) else repr(value)
        return code(text.removeprefix("datetime."))
    return "" if field.default_factory is not dataclasses.MISSING else "required"


def _list_members(kind: type) -> Iterator[list[str]]:
    if not dataclasses.is_dataclass(kind):
        docs = {c.name: c.doc for c in read_constants(Path(inspect.getfile(kind))) if c.owner}
        yield from ([code(name), docs[name]] for name in kind.__annotations__)
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield [code(name), plain(inspect.getdoc(member) or "")]
        elif inspect.isfunction(member):
            yield [code(_signature(member)), plain(inspect.getdoc(member) or "")]


def _signature(function: Any) -> str:
    """Return a function's head as it is written in its source."""
    node = ast.parse(dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef)
    arguments = node.args
    arguments.args = [each for each in arguments.args if each.arg != "self"]
    result = ast.unparse(node.returns) if node.returns else "None"
    return f"{node.name}({ast.unparse(arguments)}) -> {result}"


def _describe_functions(names: Iterable[str], module: Any) -> Iterator[str]:
    for name in names:
        function = getattr(module, name)
        intro, texts = _read_docstring(inspect.getdoc(function) or "")
        yield f"### {name}"
        yield f"```text\n{_signature(function)}\n```"
        yield intro
        if texts:
            rows = [[code(each), words] for each, words in texts.items()]
            yield table(["argument", "what it is"], rows)


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the paragraphs of a docstring, and the texts of its attributes or arguments."""
    intro, texts, name, listed = [], {}, "", False
    for line in text.splitlines():
        if line in {"Attributes:", "Args:"}:
            listed = True
        elif line == "Raises:":
            listed = False
            intro.append("Raises")
        elif listed and (found := re.match(r"    (\w+): (.*)", line)):
            name = found[1]
            texts[name] = found[2]
        elif listed and line.startswith("  "):
            texts[name] += f" {line.strip()}"
        else:
            intro.append(line)
    paragraphs = "\n".join(intro).strip().split("\n\n")
    return "\n\n".join(map(plain, paragraphs)), {k: plain(v) for k, v in texts.items()}


def _members(module: str, name: str, missing: list[str]) -> Iterator[list[str]]:
    where = ".".join(Path(module).with_suffix("").parts)
    values = {m.name: m.value for m in getattr(import_module(f"multiqueue.{where}"), name)}
    for constant in read_constants(FOLDER / module):
        if constant.owner == name:
            if not constant.doc:
                missing.append(f"{name}.{constant.name}")
            yield [code(values[constant.name]), constant.doc]
