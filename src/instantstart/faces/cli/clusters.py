"""``instantstart cluster ...``: the life of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from instantstart.faces.cli import creating, imports, nodes, show, steps
from instantstart.faces.cli.agreeing import Yes, begin_agreed, confirm
from instantstart.faces.cli.session import TABLE, ClusterArgument, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import begin, cluster_path

app = typer.Typer(help="Make, list, look at, mend and delete clusters.", no_args_is_help=True)
app.command("create")(creating.create)
app.command("eks")(creating.eks)
app.command("dependencies")(creating.dependencies)
app.command("hyperpod")(creating.hyperpod)
app.command("storage")(creating.storage)
app.command("preflight")(creating.preflight)
app.command("nodes")(nodes.list_nodes)
app.command("import")(imports.import_cluster)


@app.command("list")
def list_clusters(
    region: Annotated[str | None, typer.Option(help="Only this region.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only tags or states that contain this.")] = None,
    output: Output = TABLE,
) -> None:
    """List the clusters, with account, region and state."""
    with client() as http:
        page = http.get("/clusters", region=region, contains=contains, limit=200)
    columns: show.Columns = {
        "": lambda c: "*" if c["selected"] else " ",
        "TAG": "tag",
        "REGION": "region",
        "ACCOUNT": "account",
        "STATE": "state",
        "NODES": _counts,
        "EKS": "eks_name",
        "HYPERPOD": "hyperpod_name",
        "NOW": lambda c: (c.get("operation") or {}).get("workflow"),
        "WHY": "why",
    }
    if output is not TABLE:
        show.data(page, output)
        return
    where = f"account {page['account']}, {', '.join(page['regions'])}"
    show.rows(page["items"], columns, output, empty=f"No clusters in {where}. Make one: instantstart cluster create")


def _counts(cluster: show.Row) -> str | None:
    groups = cluster.get("groups") or ()
    return f"{sum(g['current'] for g in groups)}/{sum(g['target'] for g in groups)}" if groups else None


@app.command()
def get(cluster: ClusterArgument = None, output: Output = TABLE) -> None:
    """Show one cluster: what stands, what is missing, its components and storage."""
    with client() as http:
        told = http.get(cluster_path(chosen_cluster(http, cluster)))
    if output is not TABLE:
        show.data(told, output)
        return
    show.thing({k: v for k, v in told["cluster"].items() if k not in ("groups", "operation", "managed")} | {"vpc": told["vpc_id"]}, output)
    steps_told = [{"step": name, "done": done, "missing": told["missing"].get(name)} for name, done in told["stages"].items()]
    show.rows(steps_told, {"STEP": "step", "DONE": "done", "MISSING": "missing"}, output)
    for heading in ("components", "storage"):
        if told[heading]:
            show.rows(told[heading], {key.upper(): key for key in told[heading][0]}, output)
    if told["cluster"].get("operation"):
        show.note(f"Working on it: instantstart operation watch {told['cluster']['operation']['id']}")


@app.command()
def events(
    cluster: ClusterArgument = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most events to show.")] = 50,
    output: Output = TABLE,
) -> None:
    """List what CloudFormation and HyperPod said about a cluster, newest first."""
    with client() as http:
        found = http.get(cluster_path(chosen_cluster(http, cluster)) + "/events", limit=limit)["items"]
    columns: show.Columns = {
        "AT": lambda e: show.moment(e["at"]), "SOURCE": "source", "LEVEL": "level", "SUBJECT": "subject", "EVENT": "message",
    }  # fmt: skip
    show.rows(found, columns, output, empty="No events.")


@app.command()
def select(cluster: Annotated[str, typer.Argument(help="Tag of the cluster.")], wait: Wait = True, output: Output = TABLE) -> None:
    """Make a cluster the default of this identity, and connect to it."""
    with client() as http:
        begin(http, "POST", cluster_path(cluster) + "/selection", steps.How(wait=wait, output=output))


@app.command()
def verify(cluster: ClusterArgument = None, wait: Wait = True, output: Output = TABLE) -> None:
    """Read everything anew and show the summary."""
    with client() as http:
        begin(http, "POST", cluster_path(chosen_cluster(http, cluster)) + "/verification", steps.How(wait=wait, output=output))


@app.command()
def delete(
    cluster: Annotated[str, typer.Argument(help="Tag of the cluster.")],
    yes: Yes = False,
    delete_data: Annotated[bool, typer.Option("--delete-data", help="Delete the bucket that was made for it too.")] = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Delete a cluster and everything that was made for it. Shows the plan, and asks for the tag to be typed."""
    path = cluster_path(cluster)
    how = steps.How(wait, output, dry_run, query={"delete_data": delete_data or None})
    with client() as http:
        begin_agreed(http, ("DELETE", path), how, yes, typed=cluster)


@app.command()
def forget(
    cluster: Annotated[str, typer.Argument(help="Tag of the cluster.")],
    yes: Yes = False,
    output: Output = TABLE,
) -> None:
    """Take a cluster off the list; nothing on AWS changes. Asks for its tag to be typed."""
    confirm(
        f"{cluster} is not shown, checked or worked on here any more; on AWS it goes on, and costs. Import it to have it back.",
        yes,
        typed=cluster,
    )
    with client() as http:
        told = http.call("POST", cluster_path(cluster) + "/forget")
    if output is TABLE:
        show.note(f"{cluster} is off the list; on AWS everything stays.")
        return
    show.data(told, output)


@app.command()
def zones(
    region: Annotated[str | None, typer.Option(help="Region; left out: the server's.")] = None,
    instance_type: Annotated[str | None, typer.Option("--type", help="Say for each zone whether it offers this type.")] = None,
    output: Output = TABLE,
) -> None:
    """List the zones where nodes can go."""
    with client() as http:
        page = http.get("/zones", region=region, instance_type=instance_type)
    if output is not TABLE:
        show.data(page, output)
        return
    show.rows(
        page["items"], {"ID": "zone_id", "NAME": "name", "EKS CONTROL PLANE": "eks_control_plane", "OFFERS TYPE": "offers_type"}, output
    )


@app.command("types")
def instance_types(
    zone: Annotated[str | None, typer.Option(help="Only what this zone offers.")] = None,
    region: Annotated[str | None, typer.Option(help="Region; left out: the server's.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only names that contain this, such as g5.")] = None,
    spot: Annotated[bool, typer.Option("--spot", help="Show the Spot quota.")] = False,
    output: Output = TABLE,
) -> None:
    """List the instance types for nodes, with their quota."""
    with client() as http:
        page = http.get("/instance-types", region=region, zone=zone, contains=contains, spot=spot or None, limit=300)
    if output is not TABLE:
        show.data(page, output)
        return
    columns: show.Columns = {
        "TYPE": "name", "VCPU": "vcpus", "GIB": "memory_gib", "ACCELERATORS": _accelerators, "EFA": "efa_interfaces",
        "QUOTA": lambda o: "unknown" if o["quota"] is None else o["quota"],
        "ZONES": lambda o: "unknown" if o["zones"] is None else ", ".join(o["zones"]),
    }  # fmt: skip
    show.rows(page["items"], columns, output, empty="No instance types.")


def _accelerators(offer: show.Row) -> str | None:
    return f"{offer['accelerators']} x {offer['accelerator']}" if offer["accelerators"] else None
