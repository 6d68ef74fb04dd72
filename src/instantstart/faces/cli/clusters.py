"""``instantstart cluster ...``: the life of a cluster."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import show, steps
from instantstart.faces.cli.session import TABLE, ClusterArgument, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import begin, cluster_path

app = typer.Typer(help="Make, list, look at, mend and delete clusters.", no_args_is_help=True)
app.command("create")(steps.create)
app.command("eks")(steps.eks)
app.command("dependencies")(steps.dependencies)
app.command("hyperpod")(steps.hyperpod)
app.command("storage")(steps.storage)
app.command("preflight")(steps.preflight)


@app.command("list")
def list_clusters(output: Output = TABLE) -> None:
    """List the clusters, with account, region and state."""
    with client() as http:
        page = http.get("/clusters")
        selected = http.get("/me").get("selected_cluster")
    columns: show.Columns = {
        "": lambda c: "*" if c["tag"] == selected and selected else " ",
        "TAG": "tag",
        "REGION": "region",
        "STATE": "state",
        "EKS": "eks_name",
        "HYPERPOD": "hyperpod_name",
        "MANAGED": "managed",
    }
    if output is not TABLE:
        show.data(page, output)
        return
    show.rows(page["items"], columns, output, empty="No clusters. instantstart cluster create")


@app.command()
def get(cluster: ClusterArgument = None, output: Output = TABLE) -> None:
    """Show one cluster: what stands, what is missing, its nodes and storage."""
    with client() as http:
        show.thing(http.get(cluster_path(chosen_cluster(http, cluster))), output)


@app.command()
def nodes(cluster: ClusterArgument = None, output: Output = TABLE) -> None:
    """List the nodes of a cluster."""
    with client() as http:
        page = http.get(cluster_path(chosen_cluster(http, cluster)) + "/nodes")
    columns: show.Columns = {
        "NAME": "name", "GROUP": "instance_group", "TYPE": "instance_type", "CAPACITY": "capacity_type", "ZONE": "zone",
        "STATUS": "status", "READY": "ready", "HEALTH": "health",
    }  # fmt: skip
    if output is not TABLE:
        show.data(page, output)
        return
    show.rows(page["items"], columns, output, empty="No nodes.")


@app.command()
def select(cluster: Annotated[str, typer.Argument(help="Tag of the cluster.")], output: Output = TABLE) -> None:
    """Make a cluster the default of this identity's commands."""
    with client() as http:
        told = http.call("POST", cluster_path(cluster) + ":select")
    if output is TABLE:
        show.note(f"Selected {cluster}.")
        return
    show.data(told, output)


@app.command()
def verify(cluster: ClusterArgument = None, wait: Wait = True, output: Output = TABLE) -> None:
    """Read everything anew and show the summary."""
    with client() as http:
        begin(http, "POST", cluster_path(chosen_cluster(http, cluster)) + ":verify", steps.How(wait=wait, output=output))


@app.command()
def delete(
    cluster: Annotated[str, typer.Argument(help="Tag of the cluster.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; for scripts. The plan is still shown.")] = False,
    delete_data: Annotated[bool, typer.Option("--delete-data", help="Delete the bucket that was made for it too.")] = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Delete a cluster and everything that was made for it. Shows the plan, and asks for the tag to be typed."""
    path = cluster_path(cluster)
    data = {"delete_data": delete_data or None}
    with client() as http:
        plan = http.call("DELETE", path, query={"dry_run": True, **data})
        if dry_run:
            steps.show_plan(plan, output)
            return
        steps.show_plan(plan, TABLE, note=True)
        if not yes:
            confirm(cluster)
        how = steps.How(wait=wait, output=output, query={"approval": _approval(plan), **data})
        begin(http, "DELETE", path, how)


def _approval(plan: dict[str, Any]) -> str | None:
    approval = plan.get("approval")
    return approval.get("secret") if isinstance(approval, dict) else approval


def confirm(tag: str) -> None:
    """The friction before a deletion: type the tag. Raises Invalid when it is not typed, or nobody is there to type."""
    if not sys.stdin.isatty():
        raise problems.Invalid(
            "cluster.not_confirmed", "Nobody is there to confirm the deletion.", hint="Look at --dry-run, then add --yes."
        )
    if typer.prompt(f"Type {tag} to delete it", err=True) != tag:
        raise problems.Invalid("cluster.not_confirmed", "That is not the tag; nothing was deleted.")


@app.command()
def forget(
    cluster: Annotated[str, typer.Argument(help="Tag of the cluster.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = TABLE,
) -> None:
    """Take a cluster off the list; nothing on AWS changes."""
    if not yes:
        confirm(cluster)
    with client() as http:
        told = http.call("POST", cluster_path(cluster) + ":forget")
    if output is TABLE:
        show.note(f"{cluster} is off the list; on AWS everything stays.")
        return
    show.data(told, output)


@app.command()
def zones(region: Annotated[str | None, typer.Option(help="Region; left out: the server's.")] = None, output: Output = TABLE) -> None:
    """List the zones where nodes can go."""
    with client() as http:
        page = http.get("/zones", region=region)
    if output is not TABLE:
        show.data(page, output)
        return
    show.rows(page["items"], {"ID": "zone_id", "NAME": "zone_name", "TYPE": "zone_type"}, output)


@app.command("types")
def instance_types(
    zone: Annotated[str | None, typer.Option(help="Only what this zone offers.")] = None,
    region: Annotated[str | None, typer.Option(help="Region; left out: the server's.")] = None,
    output: Output = TABLE,
) -> None:
    """List the instance types for nodes, with the quota left."""
    with client() as http:
        page = http.get("/instance-types", region=region, zone=zone)
    if output is not TABLE:
        show.data(page, output)
        return
    columns: show.Columns = {
        "TYPE": "instance_type",
        "VCPU": "vcpus",
        "MEMORY": "memory_gib",
        "GPU": "accelerators",
        "QUOTA": "quota",
        "USED": "used",
    }
    show.rows(page["items"], columns, output)
