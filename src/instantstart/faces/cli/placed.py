"""Options and addresses of what lies in a cluster, the same in every command."""

from __future__ import annotations

from typing import Annotated

import typer

from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import joined
from instantstart.faces.cli.session import chosen_cluster
from instantstart.faces.cli.steps import cluster_path

Cluster = Annotated[str | None, typer.Option("--cluster", "-c", help="Tag of the cluster; left out: the selected one.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Kubernetes namespace.")]
OnlyNamespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only of this namespace.")]
Name = Annotated[str, typer.Argument(help="Its name.")]
Contains = Annotated[str | None, typer.Option(help="Only names that contain this.")]
Limit = Annotated[int, typer.Option(help="Most to show.")]
Cursor = Annotated[str | None, typer.Option(help="The cursor of the page before.")]


def base(http: Client, cluster: str | None, what: str) -> str:
    """The address of all of a kind in a cluster: the named one, or the caller's selected one."""
    return f"{cluster_path(chosen_cluster(http, cluster))}/{what}"


def one(http: Client, cluster: str | None, what: str, place: tuple[str, str]) -> str:
    """The address of one of them: namespace and name."""
    return base(http, cluster, what) + joined(*place)
