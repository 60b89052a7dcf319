"""Reads the objects of ``list``, and finds the job that ``--for`` names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from multiqueue.api.job_kinds import KnownKind, known_kinds
from multiqueue.cli.declared_kinds import learn_kinds
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.kueuectl.kinds import KueuectlKind
from multiqueue.cli.kueuectl.options import request_limit
from multiqueue.cli.output import echo, print_data, print_table
from multiqueue.kube.client import KubeClient, ObjectList
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import Resource, resource_of
from multiqueue.lib.selectors import SelectorError, parse_label_selector

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What is listed; no namespace: all of them."""

    namespace: str | None
    selector: str = ""
    field_selector: str = ""
    output: str = "human"
    watch: bool = False

    def __post_init__(self) -> None:
        """Refuse a malformed selector.

        Raises:
            UsageProblem: it names the option.
        """
        try:
            parse_label_selector(self.selector)
        except SelectorError as error:
            raise UsageProblem(f'--selector "{self.selector}": {error}') from error
        for item in filter(None, (part.strip() for part in self.field_selector.split(","))):
            if not item.partition("=")[1] or not item.partition("=")[0]:
                raise UsageProblem(f'--field-selector "{item}": write FIELD=VALUE or FIELD!=VALUE')

    def say_none(self) -> None:
        """Say that there is nothing, as kubectl does."""
        where = f" in {self.namespace} namespace." if self.namespace else ""
        click.echo(f"No resources found{where}", err=True)


async def list_objects(client: KubeClient, kind: KueuectlKind, query: ListQuery) -> list[Json]:
    """Return the objects of a kind."""
    listed = await list_pages(client, kind, query)
    head = {"apiVersion": kind.resource.api_version, "kind": kind.kind}
    return [{**head, **each} for each in listed.items]


async def list_pages(client: KubeClient, kind: KueuectlKind, query: ListQuery) -> ObjectList[Json]:
    """Return the objects of a kind as the server sends them, and the list's resourceVersion."""
    return await client.list(
        kind.resource,
        namespace=query.namespace if kind.namespaced else None,
        label_selector=query.selector,
        field_selector=query.field_selector,
        limit=request_limit(),
    )


def print_objects(resource: Resource, objects: list[Json], output: str) -> None:
    """Print objects as JSON or YAML or by a template, or their names."""
    if output == "name":
        from multiqueue.cli.kueuectl.changes import title_of

        for each in objects:
            echo(title_of(resource, each["metadata"]["name"]))
        return
    head = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
    print_data({**head, "items": objects}, output)


def print_rows(
    headers: tuple[str, ...],
    rows: list[list[Any]],
    objects: list[Json],
    *,
    with_namespace: bool,
    wide: bool,
) -> None:
    """Print a table; the first column is the namespace if those of several are listed."""
    if with_namespace:
        headers = ("NAMESPACE", *headers)
        rows = [[o["metadata"]["namespace"], *r] for o, r in zip(objects, rows, strict=True)]
    print_table(headers, rows, wide=wide)


async def find_for_object(
    client: KubeClient, for_object: str, namespace: str | None
) -> Json | None:
    """Return the job that ``--for`` names; None if it does not exist.

    Raises:
        UsageProblem: the text is not TYPE/NAME, or the type is no kind of jobs.
    """
    await learn_kinds(client)
    type_, slash, name = for_object.partition("/")
    if not slash or not type_ or not name or "/" in name:
        raise UsageProblem(f'--for "{for_object}": write TYPE[.GROUP]/NAME, such as job/train')
    row = _find_kind(type_.lower())
    if row is None:
        known = ", ".join(sorted(each.kind.lower() for each in known_kinds()))
        raise UsageProblem(
            f'--for "{for_object}": no kind of jobs is called {type_}; known: {known}'
        )
    resource = resource_of(row.api_version, row.plural, row.kind)
    if namespace is None:
        selector = f"metadata.name={name}"
        listed = await client.list(resource, field_selector=selector)
        found = next(iter(listed.items), None)
    else:
        try:
            found = await client.get(resource, name, namespace=namespace)
        except NotFound:
            found = None
    return found and {**found, "apiVersion": row.api_version, "kind": row.kind}


def _find_kind(type_: str) -> KnownKind | None:
    """Return the kind of ``job``, ``jobs``, ``job.batch`` or ``jobs.v1.batch``."""
    word, _, group = type_.partition(".")
    for row in known_kinds():
        names = {row.kind.lower(), row.plural}
        if word in names and group in {"", row.group, f"{row.version}.{row.group}"}:
            return row
    return None
