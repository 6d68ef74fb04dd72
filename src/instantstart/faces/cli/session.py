"""What every command shares: the client of the chosen server, and the options that look the same everywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

import httpx2
import typer

from instantstart.base import problems
from instantstart.faces.cli import contexts, show
from instantstart.faces.cli.client import Client

Output = Annotated[show.Format, typer.Option("--output", "-o", help="How to print: table, json or yaml.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the operation to its end, or come back at once.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan; change nothing.")]
ClusterArgument = Annotated[str | None, typer.Argument(help="Tag of the cluster; left out: the selected one.", show_default=False)]
TABLE = show.Format.table

#: tests put an in-process transport here
transport: httpx2.BaseTransport | None = None


def context() -> contexts.Context:
    """The server this command speaks to."""
    return contexts.resolve()


@contextlib.contextmanager
def client() -> Iterator[Client]:
    """A client of the chosen server."""
    made = Client(context(), transport)
    try:
        yield made
    finally:
        made.close()


def chosen_cluster(http: Client, tag: str | None) -> str:
    """``tag``, or the caller's selected cluster. Raises Invalid when there is neither."""
    if tag:
        return tag
    selected = http.get("/me").get("selected_cluster")
    if not selected:
        raise problems.Invalid(
            "cluster.not_selected",
            "Say which cluster, or select one first.",
            hint="instantstart cluster list; instantstart cluster select TAG",
        )
    return str(selected)
