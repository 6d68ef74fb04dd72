"""``instantstart node ...``: the nodes of a cluster: looked at, rebooted, replaced, deleted, moved, checked, given new software."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from instantstart.faces.cli import show, steps
from instantstart.faces.cli.agreeing import Yes, begin_agreed
from instantstart.faces.cli.paths import part
from instantstart.faces.cli.placed import Cluster
from instantstart.faces.cli.session import TABLE, ClusterArgument, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import cluster_path

app = typer.Typer(help="Look at, mend, delete and check nodes.", no_args_is_help=True)

Nodes = Annotated[list[str], typer.Argument(help="Nodes: instance ids (i-...), Kubernetes names (hyperpod-i-...) or logical ids.")]
Drain = Annotated[int | None, typer.Option("--drain-minutes", help="How long pods get to leave within their budgets; 0: no drain.")]
Group = Annotated[str | None, typer.Option("--group", help="Only this instance group.")]
Limit = Annotated[int, typer.Option(min=1, max=100, help="Most to show.")]
COLUMNS: show.Columns = {
    "INSTANCE": lambda n: n["instance_id"] or n["logical_id"], "NAME": "name", "GROUP": "group", "TYPE": "instance_type",
    "CAPACITY": "capacity_type", "ZONE": "zone", "STATUS": "status", "READY": "ready", "SCHEDULABLE": "schedulable",
    "HEALTH": "health_state", "SOFTWARE": "software", "BECAUSE": "because",
}  # fmt: skip


@app.command("list")
def list_nodes(
    cluster: ClusterArgument = None,
    group: Group = None,
    instance_type: Annotated[str | None, typer.Option("--type", help="Only this instance type.")] = None,
    status: Annotated[str | None, typer.Option(help="Only SageMaker's status, such as Running.")] = None,
    health: Annotated[str | None, typer.Option(help="healthy, unhealthy, recovering, checking, starting or unknown.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only nodes with this text in an id, name, zone or reason.")] = None,
    sort: Annotated[str | None, typer.Option(help="name, group, type, status, health or launched.")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="The last first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most nodes to show.")] = 100,
    output: Output = TABLE,
) -> None:
    """List the nodes of a cluster."""
    asked: dict[str, Any] = {"group": group, "instance_type": instance_type, "status": status, "health": health, "contains": contains}
    asked |= {"sort": sort, "descending": descending or None}
    with client() as http:
        path = cluster_path(chosen_cluster(http, cluster)) + "/nodes"
        page = http.get(path, limit=min(limit, 1000), **asked)
        items = list(page["items"])
        while page["cursor"] and len(items) < limit:
            page = http.get(path, limit=min(limit - len(items), 1000), cursor=page["cursor"], **asked)
            items += page["items"]
    if output is not TABLE:
        show.data({**page, "items": items}, output)
        return
    show.rows(items, COLUMNS, output, empty="No nodes.")
    told = ", ".join(f"{count} {state}" for state, count in page["counts"].items())
    show.note(f"{len(items)} of {page['total']} nodes{f': {told}' if told else ''}.{' ' + page['unknown'] if page['unknown'] else ''}")


@app.command()
def get(
    node: Annotated[str, typer.Argument(help="Instance id, Kubernetes name or logical id.")],
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """Show one node: health, faults, addresses, its pods and whose work they are, events, HyperPod's operations."""
    with client() as http:
        told = http.get(f"{cluster_path(chosen_cluster(http, cluster))}/nodes/{part(node)}")
    if output is not TABLE:
        show.data(told, output)
        return
    apart = ("node", "pods", "events", "operations", "conditions", "zone")
    show.thing({**told["node"], **{key: value for key, value in told.items() if key not in apart}, "zone": told["zone"]}, output)
    for heading, columns in (("pods", _PODS), ("events", _EVENTS), ("operations", _OPERATIONS)):
        if told[heading]:
            show.rows(told[heading], columns, output)


_PODS: show.Columns = {
    "POD": lambda p: f"{p['namespace']}/{p['name']}", "PHASE": "phase", "OWNER": "owner", "ACCELERATORS": "accelerators",
    "BECAUSE": "because",
}  # fmt: skip
_EVENTS: show.Columns = {
    "AT": lambda e: show.moment(e["at"]), "LEVEL": "level", "SUBJECT": "subject", "EVENT": "message", "REASON": "because",
}  # fmt: skip
_OPERATIONS: show.Columns = {
    "AT": lambda o: show.moment(o["created_at"]), "OPERATION": "operation_id", "KIND": "type", "STATUS": "status", "TOLD": "told",
}  # fmt: skip


@app.command()
def health(cluster: ClusterArgument = None, output: Output = TABLE) -> None:
    """Report every node that is not healthy, and what to do about it."""
    with client() as http:
        told = http.get(cluster_path(chosen_cluster(http, cluster)) + "/node-health")
    if output is not TABLE:
        show.data(told, output)
        return
    columns: show.Columns = {
        "NODE": "node", "GROUP": "group", "HEALTH": "health_state", "FAULTS": "faults", "BECAUSE": "because", "ADVICE": "advice",
    }  # fmt: skip
    show.rows(told["findings"], columns, output, empty="Every node is healthy.")
    show.note(f"Recovery: {told['recovery']}")


@app.command()
def uncordon(nodes: Nodes, cluster: Cluster = None, output: Output = TABLE) -> None:
    """Let nodes take pods again that a cancelled operation left cordoned."""
    with client() as http:
        told = http.call("POST", cluster_path(chosen_cluster(http, cluster)) + "/node-uncordons", body={"nodes": nodes})
    if output is not TABLE:
        show.data(told, output)
        return
    for name in told["uncordoned"]:
        show.note(f"{name} takes pods.")
    for name, why in told["left"].items():
        show.note(f"{name}: {why}")


@app.command()
def events(
    cluster: ClusterArgument = None,
    node: Annotated[str | None, typer.Option("--node", help="Only this node: any name of it.")] = None,
    group: Group = None,
    limit: Limit = 50,
    output: Output = TABLE,
) -> None:
    """List what HyperPod did and what failed, newest first, with the reasons."""
    with client() as http:
        page = http.get(cluster_path(chosen_cluster(http, cluster)) + "/hyperpod-events", node=node, group=group, limit=limit)
    _listed(page, _EVENTS, output, "No events.")


@app.command()
def operations(cluster: ClusterArgument = None, limit: Limit = 20, output: Output = TABLE) -> None:
    """List HyperPod's own scalings and deep health checks."""
    with client() as http:
        page = http.get(cluster_path(chosen_cluster(http, cluster)) + "/hyperpod-operations", limit=limit)
    _listed(page, _OPERATIONS, output, "No operations.")


def _listed(page: Mapping[str, Any], columns: show.Columns, output: show.Format, empty: str) -> None:
    if output is not TABLE:
        show.data(page, output)
        return
    show.rows(page["items"], columns, output, empty=page["note"] or empty)


@app.command()
def reboot(
    nodes: Nodes, cluster: Cluster = None, drain_minutes: Drain = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """Reboot nodes; what is on their volumes stays. Work on them is named first."""
    body = steps.asked(None, nodes=nodes) | _given(drain_minutes=drain_minutes)
    _act("node-reboots", cluster, body, yes, steps.How(wait, output, dry_run))


@app.command()
def replace(
    nodes: Nodes, cluster: Cluster = None, drain_minutes: Drain = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """Give nodes other instances; what is on their volumes is lost."""
    body = steps.asked(None, nodes=nodes) | _given(drain_minutes=drain_minutes)
    _act("node-replacements", cluster, body, yes, steps.How(wait, output, dry_run))


@app.command()
def delete(
    nodes: Nodes, cluster: Cluster = None, drain_minutes: Drain = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """Delete just these nodes; the target counts of their groups go down."""
    body = steps.asked(None, nodes=nodes) | _given(drain_minutes=drain_minutes)
    _act("node-deletions", cluster, body, yes, steps.How(wait, output, dry_run))


@app.command()
def move(
    nodes: Nodes,
    to: Annotated[str, typer.Option("--to", help="The instance group they shall belong to.")],
    cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE,
) -> None:  # fmt: skip
    """Let nodes belong to another instance group of the same type."""
    _act("node-moves", cluster, {"nodes": nodes, "target_group": to}, yes, steps.How(wait, output, dry_run))


@app.command()
def check(
    nodes: Nodes,
    checks: Annotated[
        list[str] | None, typer.Option("--check", help="InstanceStress, InstanceConnectivity or MultiNodeTrainingValidation.")
    ] = None,
    cluster: Cluster = None, drain_minutes: Drain = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """Start deep health checks; the nodes take no pods for one to two hours."""
    body = steps.asked(None, nodes=nodes, checks=checks) | _given(drain_minutes=drain_minutes)
    _act("node-checks", cluster, body, yes, steps.How(wait, output, dry_run))


@app.command("update-software")
def update_software(
    cluster: ClusterArgument = None,
    groups: Annotated[list[str] | None, typer.Option("--group", help="A group; may be repeated. Left out: all that are outdated.")] = None,
    release: Annotated[str | None, typer.Option(help="HyperPod release, such as 1.2.0. Left out: the newest.")] = None,
    image: Annotated[str | None, typer.Option(help="A custom AMI, or default.")] = None,
    batch: Annotated[int | None, typer.Option(help="Most nodes at once.")] = None,
    percent: Annotated[bool, typer.Option("--percent", help="--batch counts per cent of a group.")] = False,
    pause: Annotated[int | None, typer.Option(help="Seconds between two batches.")] = None,
    alarms: Annotated[list[str] | None, typer.Option("--rollback-alarm", help="CloudWatch alarm that takes it back.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Newer HyperPod software for the nodes of groups, batch by batch if asked."""
    body = steps.asked(
        None, instance_groups=groups, release_version=release, image_id=image, batch_size=batch, rollback_alarms=alarms,
        batch_type="CAPACITY_PERCENTAGE" if percent else None,
    )  # fmt: skip
    _act("software-updates", cluster, body | _given(wait_seconds=pause), yes, steps.How(wait, output, dry_run))


def _given(**options: int | None) -> dict[str, int]:
    """Options that were given; zero is one too."""
    return {name: value for name, value in options.items() if value is not None}


def _act(noun: str, cluster: str | None, body: Mapping[str, Any], yes: bool, how: steps.How) -> None:
    """Ask for the plan; where it must be approved, show it and ask the person; then begin."""
    with client() as http:
        path = f"{cluster_path(chosen_cluster(http, cluster))}/{noun}"
        begin_agreed(http, ("POST", path), how, yes, body)
