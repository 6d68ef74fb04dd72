"""``instantstart fleet ...``: what the nodes of a cluster offer, what is used, what waits and what stands idle."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from instantstart.faces.cli import show
from instantstart.faces.cli.session import TABLE, ClusterArgument, Output, chosen_cluster, client
from instantstart.faces.cli.steps import cluster_path

app = typer.Typer(help="Nodes and accelerators of a cluster: used, idle, pending.", invoke_without_command=True)

Group = Annotated[str | None, typer.Option("--group", help="Only this instance group.")]
Type = Annotated[str | None, typer.Option("--type", help="Only this instance type.")]
_STATES = ("cordoned", "not_ready", "checking", "repairing", "unhealthy", "leaving")


@app.callback()
def fleet(context: typer.Context, output: Output = TABLE) -> None:
    """Nodes and accelerators of a cluster: used, idle, pending. Alone: of the selected cluster."""
    if context.invoked_subcommand is None:
        get(output=output)


@app.command("get")
def get(
    cluster: ClusterArgument = None,
    group: Group = None,
    instance_type: Type = None,
    capacity_type: Annotated[str | None, typer.Option("--capacity", help="on_demand, spot or training_plan.")] = None,
    output: Output = TABLE,
) -> None:
    """Show nodes and accelerators by group and type."""
    with client() as http:
        path = cluster_path(chosen_cluster(http, cluster)) + "/fleet"
        told = http.get(path, group=group, instance_type=instance_type, capacity_type=capacity_type)
    if output is not TABLE:
        show.data(told, output)
        return
    columns: show.Columns = {
        "GROUP": lambda g: g["group"] or "(not HyperPod)",
        "TYPE": "instance_type",
        "CAPACITY": "capacity_type",
        "NODES": lambda g: _of(g["nodes"]["joined"], g["nodes"]["wanted"]),
        "USABLE": lambda g: g["nodes"]["usable"],
        "OTHER": lambda g: ", ".join(f"{g['nodes'][state]} {state}" for state in _STATES if g["nodes"][state]),
        **{name.upper(): _column(name) for name in ("total", "used", "idle", "pending")},
        "IDLE NODES": lambda g: g["idle"]["nodes"] or None,
        "IDLE HOURS": lambda g: g["idle"]["accelerator_hours"] or None,
    }
    show.rows(told["groups"], columns, output, empty="No nodes and no groups.")
    for each in told["accelerators"]:
        counts = ", ".join(f"{each[name]} {name}" for name in ("total", "allocatable", "usable", "used", "idle", "pending"))
        show.note(f"{each['resource']}: {counts}")
    if told["pods_waiting"]:
        many = "1 pod waits" if told["pods_waiting"] == 1 else f"{told['pods_waiting']} pods wait"
        show.note(f"{many}: instantstart fleet pending {told['cluster']} --all")
    freshness(told["freshness"])


@app.command("pending")
def pending(
    cluster: ClusterArgument = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace.")] = None,
    group: Group = None,
    instance_type: Type = None,
    every: Annotated[bool, typer.Option("--all", help="Also pods that ask for no accelerators.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most pods to show.")] = 50,
    output: Output = TABLE,
) -> None:
    """List the pods that are wanted and do not run, oldest first, with the reason."""
    with client() as http:
        path = cluster_path(chosen_cluster(http, cluster)) + "/fleet/pending"
        asked = {"namespace": namespace, "group": group, "instance_type": instance_type, "limit": limit}
        page = http.get(path, accelerated=not every, **asked)
    if output is not TABLE:
        show.data(page, output)
        return
    columns: show.Columns = {
        "NAMESPACE": "namespace",
        "NAME": "name",
        "STATE": "state",
        "FOR": lambda p: show.duration(p["seconds"]),
        "ACCELERATORS": lambda p: ", ".join(f"{count} {name}" for name, count in p["accelerators"].items()),
        "JOB": "job",
        "REASON": "reason",
        "BECAUSE": "because",
    }
    show.rows(
        page["items"], columns, output, empty="No pod waits." if every else "No pod that asks for accelerators waits; --all: the others."
    )
    if page["cursor"]:
        show.note("There are more: raise --limit, or narrow the list.")
    freshness(page["freshness"])


def freshness(told: dict[str, Any]) -> None:
    """Say it when the answer is not the present."""
    if told["state"] == "stale":
        show.note(f"Stale: true as of {show.moment(told['since'])}. {told['because'] or ''}")
    elif told["state"] == "loading":
        show.note(f"Still reading the cluster; counts are not complete. {told['because'] or ''}")
    if told["groups_because"]:
        show.note(f"Wanted counts are of {show.moment(told['groups_read_at'])}: {told['groups_because']}")


def _column(name: str) -> Any:
    """One count of the accelerators of a group, a line for each resource."""
    return lambda g: "\n".join(str(each[name]) for each in g["accelerators"]) or None


def _of(joined: int, wanted: int | None) -> str:
    return str(joined) if wanted is None else f"{joined}/{wanted}"
