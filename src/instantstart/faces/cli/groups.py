"""``instantstart group ...`` and ``instantstart plan ...``: instance groups, and the training plans that pay for some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import show, steps
from instantstart.faces.cli.agreeing import Yes, begin_agreed, begin_costly
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import joined, part
from instantstart.faces.cli.placed import Cluster
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import Checks, Spec, asked, begin, cluster_path

app = typer.Typer(help="Instance groups: add, look at, change, scale, delete.", no_args_is_help=True)
plans = typer.Typer(help="Training plans: look at, search offerings, buy.", no_args_is_help=True)

Group = Annotated[str, typer.Argument(help="Name of the instance group.")]
Labels = Annotated[list[str] | None, typer.Option("--label", help="key=value; may be given again. The whole set. --label '' removes all.")]
Taints = Annotated[list[str] | None, typer.Option("--taint", help="key=value:Effect; may be given again. The whole set.")]
Drain = Annotated[int | None, typer.Option("--drain-minutes", min=0, max=1440, help="How long pods get to leave.")]
Scripts = Annotated[str | None, typer.Option("--lifecycle-uri", help="S3 folder of the lifecycle scripts.")]
Script = Annotated[str | None, typer.Option("--lifecycle-script", help="Script in that folder that runs on a new node.")]
Minimum = Annotated[int | None, typer.Option("--min-count", help="Nodes that must arrive within three hours.")]
Region = Annotated[str | None, typer.Option(help="AWS region; left out: the server's own.")]


def _path(http: Client, cluster: str | None, group: str | None = None) -> str:
    path = cluster_path(chosen_cluster(http, cluster)) + "/instance-groups"
    return path if group is None else path + joined(group)


def _pairs(given: list[str] | None) -> dict[str, str] | None:
    """``key=value`` options as a map; None when none was given. Raises Invalid."""
    if given is None:
        return None
    wrong = [text for text in given if text and "=" not in text]
    if wrong:
        raise problems.Invalid("instance_group.label", f"{wrong[0]} is no label: write key=value.")
    return {key: value for key, _, value in (text.partition("=") for text in given if text)}


@app.command("list")
def list_groups(cluster: Cluster = None, output: Output = TABLE) -> None:
    """List the instance groups."""
    with client() as http:
        page = http.get(_path(http, cluster))
    if output is not TABLE:
        show.data(page, output)
        return
    columns: show.Columns = {
        "NAME": "name", "STATUS": "status", "NODES": lambda g: f"{g['current']}/{g['count']}",
        "TYPE": lambda g: ", ".join(g["instance_types"]), "CAPACITY": _capacity, "ZONE": lambda g: ", ".join(g["zones"]),
        "OWNER": "owner", "NOW": lambda g: (g["operation"] or {}).get("workflow"),
    }  # fmt: skip
    show.rows(page["items"], columns, output, empty="No instance groups.")
    for left in page["left_subnets"]:
        show.note(f"Dedicated subnet {left}")
    for unread in {text for g in page["items"] for text in g["unread"]}:
        show.note(f"Could not be read: {unread}")


def _capacity(group: show.Row) -> str:
    plan = group.get("training_plan")
    return f"training plan until {show.moment(plan['ends_at'])}" if plan and plan["ends_at"] else str(group["capacity_type"])


@app.command()
def get(group: Group, cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one instance group."""
    with client() as http:
        told = http.get(_path(http, cluster, group))
    if output is not TABLE:
        show.data(told, output)
        return
    _show(told, output)


def _show(told: Mapping[str, Any], output: show.Format) -> None:
    nodes = ", ".join(f"{count} {status}" for status, count in told["nodes"].items())
    show.thing({k: v for k, v in told["group"].items() if v not in (None, [], {})} | {"nodes": nodes}, output)


@app.command()
def add(
    name: Annotated[str | None, typer.Argument(help="Name of the new group.", show_default=False)] = None,
    cluster: Cluster = None,
    instance_type: steps.InstanceType = None,
    count: steps.Count = None,
    zone: steps.Zone = None,
    capacity: steps.Capacity = None,
    training_plan: steps.Plan = None,
    network_interface: Annotated[str | None, typer.Option(help="standard or efa_only.")] = None,
    subnet: Annotated[str | None, typer.Option(help="shared or dedicated.")] = None,
    subnet_id: Annotated[str | None, typer.Option(help="An existing private subnet.")] = None,
    volume_gib: Annotated[int | None, typer.Option(help="Size of each node's extra volume.")] = None,
    label: Labels = None,
    taint: Taints = None,
    deep_health_check: Checks = None,
    min_count: Minimum = None,
    lifecycle_uri: Scripts = None,
    lifecycle_script: Script = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Add an instance group; most of it is for the life of the group."""
    body = asked(
        file, name=name, instance_type=instance_type, instance_count=count, zone=zone, capacity_type=capacity,
        training_plan_arn=training_plan, network_interface=network_interface, subnet=subnet, subnet_id=subnet_id, volume_gib=volume_gib,
        labels=_pairs(label), taints=taint, deep_health_checks=deep_health_check, min_instance_count=min_count,
        lifecycle_uri=lifecycle_uri, lifecycle_script=lifecycle_script,
    )  # fmt: skip
    with client() as http:
        begin_costly(http, _path(http, cluster), steps.How(wait, output, dry_run), yes, body)


@app.command()
def update(
    group: Group,
    cluster: Cluster = None,
    label: Labels = None,
    taint: Taints = None,
    deep_health_check: Checks = None,
    no_deep_health_checks: Annotated[bool, typer.Option("--no-deep-health-checks", help="Remove them.")] = False,
    no_taints: Annotated[bool, typer.Option("--no-taints", help="Remove them.")] = False,
    min_count: Minimum = None,
    lifecycle_uri: Scripts = None,
    lifecycle_script: Script = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Change an instance group; what is left out stays."""
    body = asked(
        file, labels=_pairs(label), taints=taint, deep_health_checks=deep_health_check, min_instance_count=min_count,
        lifecycle_uri=lifecycle_uri, lifecycle_script=lifecycle_script,
    )  # fmt: skip
    body |= ({"deep_health_checks": []} if no_deep_health_checks else {}) | ({"taints": []} if no_taints else {})
    with client() as http:
        begin(http, "PATCH", _path(http, cluster, group), steps.How(wait, output, dry_run), body)


@app.command()
def scale(
    group: Group,
    count: Annotated[int, typer.Argument(min=0, max=6758, help="Number of nodes the group shall have.")],
    cluster: Cluster = None,
    expected: Annotated[int | None, typer.Option("--expected", help="The count you saw; another one by now is a conflict.")] = None,
    drain_minutes: Drain = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Change the number of nodes. Idle nodes go first; where busy ones must go, the plan is shown and asked about."""
    body = asked(None, instance_count=count, expected_count=expected, drain_minutes=drain_minutes)
    with client() as http:
        path = _path(http, cluster, group) + "/scale"
        begin_agreed(http, ("POST", path), steps.How(wait, output, dry_run), yes, body)


@app.command()
def delete(
    group: Group,
    cluster: Cluster = None,
    drain_minutes: Drain = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Empty and delete an instance group. Shows the plan, and asks for the name to be typed."""
    how = steps.How(wait, output, dry_run, query={"drain_minutes": drain_minutes})
    with client() as http:
        begin_agreed(http, ("DELETE", _path(http, cluster, group)), how, yes, typed=group)


@plans.command("list")
def list_plans(region: Region = None, output: Output = TABLE) -> None:
    """List the training plans of the account."""
    with client() as http:
        page = http.get("/training-plans", region=region)
    if output is not TABLE:
        show.data(page, output)
        return
    columns: show.Columns = {
        "NAME": "name", "STATUS": "status", "LEFT": lambda p: f"{p['available']}/{p['total']}", "TYPE": _types, "ZONE": _zones,
        "STARTS": lambda p: show.moment(p["starts_at"]), "ENDS": lambda p: show.moment(p["ends_at"]), "ARN": "arn",
    }  # fmt: skip
    show.rows(page["items"], columns, output, empty=f"No training plans in {page['region']}.")


def _types(plan: show.Row) -> str:
    return ", ".join(sorted({c["instance_type"] for c in plan["capacities"]}))


def _zones(plan: show.Row) -> str:
    return ", ".join(sorted({f"{c['zone']} ({c['zone_id']})" for c in plan["capacities"]}))


@plans.command("get")
def get_plan(name: Annotated[str, typer.Argument(help="Name of the plan.")], region: Region = None, output: Output = TABLE) -> None:
    """Show one training plan."""
    with client() as http:
        told = http.get(f"/training-plans/{part(name)}", region=region)
    if output is not TABLE:
        show.data(told, output)
        return
    show.thing({k: v for k, v in told.items() if k != "capacities"} | {"types": _types(told), "zones": _zones(told)}, output)


@plans.command()
def offerings(
    instance_type: Annotated[str, typer.Argument(help="SageMaker instance type, such as ml.p5.48xlarge.")],
    count: Annotated[int | None, typer.Option("--count", min=1, max=256, help="How many instances.")] = None,
    hours: Annotated[int | None, typer.Option("--hours", min=1, help="How long, in hours.")] = None,
    region: Region = None,
    output: Output = TABLE,
) -> None:
    """Search what is offered, with price and window. Buys nothing."""
    with client() as http:
        page = http.get("/training-plan-offerings", instance_type=instance_type, instance_count=count, duration_hours=hours, region=region)
    if output is not TABLE:
        show.data(page, output)
        return
    columns: show.Columns = {
        "ID": "offering_id", "TYPE": "instance_type", "COUNT": "instance_count", "ZONE": lambda o: ", ".join(o["zones"]),
        "STARTS": lambda o: show.moment(o["starts_at"]), "ENDS": lambda o: show.moment(o["ends_at"]),
        "FEE": lambda o: f"{o['upfront_fee']} {o['currency']}",
    }  # fmt: skip
    show.rows(page["items"], columns, output, empty="Nothing is offered for that.")


@plans.command()
def buy(
    name: Annotated[str, typer.Argument(help="Name of the new plan.")],
    offering: Annotated[str, typer.Option("--offering", help="Id of the offering, from: instantstart plan offerings.")],
    instance_type: Annotated[str, typer.Option("--type", help="Its instance type.")],
    count: Annotated[int, typer.Option("--count", min=1, max=256, help="Its number of instances.")],
    fee: Annotated[str, typer.Option("--fee", help="The fee you saw; another one by now is a conflict.")],
    region: Region = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Buy an offering: charged at once, not cancellable. Shows the price, and asks for the name to be typed."""
    body = asked(None, name=name, offering_id=offering, instance_type=instance_type, instance_count=count, upfront_fee=fee, region=region)
    with client() as http:
        begin_agreed(http, ("POST", "/training-plans"), steps.How(wait, output, dry_run), yes, body, typed=name)
