"""``instantstart karpenter ...``: managed Karpenter on and off, and the node pools by which it makes nodes for pods that wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import show
from instantstart.faces.cli.agreeing import Yes, agree, begin_agreed
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import part
from instantstart.faces.cli.placed import Cluster
from instantstart.faces.cli.session import TABLE, ClusterArgument, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import How, Spec, asked, begin, cluster_path

app = typer.Typer(help="Managed Karpenter: nodes made for pods that wait, and taken away when idle.", no_args_is_help=True)
pool_app = typer.Typer(help="Node pools: which groups, which limits, when nodes go again.", no_args_is_help=True)
app.add_typer(pool_app, name="pool")

Name = Annotated[str, typer.Argument(help="Name of the node pool.")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="Instance group; may be given again.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="Instance type; may be given again. Left out: all of the groups.")]
Zones = Annotated[list[str] | None, typer.Option("--zone", help="Only this zone (name); may be given again.")]
Limit = Annotated[list[str] | None, typer.Option("--limit", help="Most of a resource, as nvidia.com/gpu=16; may be given again.")]
Label = Annotated[list[str] | None, typer.Option("--label", help="Label of the nodes, as key=value; may be given again.")]
Taint = Annotated[list[str] | None, typer.Option("--taint", help="Taint of the nodes, as key=value:Effect; may be given again.")]
Policy = Annotated[str | None, typer.Option("--policy", help="WhenEmpty or WhenEmptyOrUnderutilized.")]
After = Annotated[str | None, typer.Option("--after", help="How long a node is idle before it goes, such as 10m.")]
BudgetNodes = Annotated[list[str] | None, typer.Option("--budget", help="Nodes that may go at once, such as 10% or 2.")]
Expire = Annotated[str | None, typer.Option("--expire-after", help="A node older than this is replaced, such as 720h; or Never.")]
Weight = Annotated[int | None, typer.Option("--weight", help="Of pools that fit, the heaviest is asked first (1 to 100).")]


def _base(http: Client, cluster: str | None) -> str:
    return cluster_path(chosen_cluster(http, cluster)) + "/karpenter"


def _pool_path(http: Client, cluster: str | None, name: str) -> str:
    return f"{_base(http, cluster)}/node-pools/{part(name)}"


def _pairs(texts: list[str] | None) -> dict[str, str] | None:
    """``key=value`` texts as a mapping. Raises Invalid for a text without ``=``."""
    wrong = next((t for t in texts or () if "=" not in t), None)
    if wrong is not None:
        raise problems.Invalid("node_pool.option", f"{wrong!r} must be key=value.")
    return dict(t.split("=", 1) for t in texts) if texts else None


@app.command("get")
def get(cluster: ClusterArgument = None, output: Output = TABLE) -> None:
    """Show where Karpenter stands, and its pools."""
    with client() as http:
        told = http.get(_base(http, cluster))
    if output is not TABLE:
        show.data(told, output)
        return
    show.note(f"Karpenter is {told['status']}. {told['because'] or 'All is well.'}")
    for finding in told["findings"]:
        show.note(f"{finding['level']}: {finding['check'].replace('_', ' ')}: {finding['detail']} {finding['hint'] or ''}".rstrip())
    _show_pools(told["pools"], output)


@app.command("enable")
def enable(
    cluster: ClusterArgument = None,
    role: Annotated[str | None, typer.Option("--role", help="ARN of a cluster role of yours; left out: one is made.")] = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Switch managed Karpenter on. It scales nothing before a node pool names instance groups."""
    with client() as http:
        begin(http, "PUT", _base(http, cluster), How(wait, output, dry_run), asked(None, cluster_role_arn=role))


@app.command("disable")
def disable(cluster: ClusterArgument = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE) -> None:
    """Remove the pools with their nodes, switch Karpenter off, put the groups back."""
    with client() as http:
        begin_agreed(http, ("DELETE", _base(http, cluster)), How(wait, output, dry_run), yes)


@pool_app.command("list")
def list_pools(cluster: ClusterArgument = None, output: Output = TABLE) -> None:
    """List node pools."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/node-pools")
    if output is not TABLE:
        show.data(told, output)
    else:
        _show_pools(told["items"], output)


@pool_app.command("get")
def get_pool(name: Name, cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one node pool and the nodes it asked for."""
    with client() as http:
        told = http.get(_pool_path(http, cluster, name))
    show.thing({k: v for k, v in told.items() if output is not TABLE or k != "claims"}, output)
    if output is TABLE:
        columns: show.Columns = {
            "NODE CLAIM": "name", "STATE": "state", "GROUP": "instance_group", "TYPE": "instance_type", "CAPACITY": "capacity_type",
            "NODE": "node", "BECAUSE": "because",
        }  # fmt: skip
        show.rows(told["claims"], columns, output, empty="No nodes.")


@pool_app.command("add")
def add_pool(
    name: Name,
    group: Groups = None,
    instance_type: Types = None,
    zone: Zones = None,
    limit: Limit = None,
    label: Label = None,
    taint: Taint = None,
    policy: Policy = None,
    after: After = None,
    budget: BudgetNodes = None,
    expire_after: Expire = None,
    weight: Weight = None,
    cluster: Cluster = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Let Karpenter make nodes of some instance groups."""
    body = _body(file, locals()) | {"name": name}
    with client() as http:
        _ask(http, ("POST", _base(http, cluster) + "/node-pools"), How(wait, output, dry_run), yes, body)


@pool_app.command("update")
def update_pool(
    name: Name,
    group: Groups = None,
    instance_type: Types = None,
    zone: Zones = None,
    limit: Limit = None,
    label: Label = None,
    taint: Taint = None,
    policy: Policy = None,
    after: After = None,
    budget: BudgetNodes = None,
    expire_after: Expire = None,
    weight: Weight = None,
    cluster: Cluster = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Change a node pool; what is left out stays."""
    body = _body(file, locals())
    with client() as http:
        _ask(http, ("PATCH", _pool_path(http, cluster, name)), How(wait, output, dry_run), yes, body)


@pool_app.command("delete")
def delete_pool(
    name: Name, cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE
) -> None:
    """Delete a node pool; its nodes are drained and go."""
    with client() as http:
        begin_agreed(http, ("DELETE", _pool_path(http, cluster, name)), How(wait, output, dry_run), yes)


def _body(file: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The request body of a pool, from the options of its command."""
    budgets = [{"nodes": b} for b in given["budget"] or []]
    return asked(
        file, instance_groups=given["group"], instance_types=given["instance_type"], zones=given["zone"], limits=_pairs(given["limit"]),
        labels=_pairs(given["label"]), taints=given["taint"], consolidation_policy=given["policy"], consolidate_after=given["after"],
        budgets=budgets, expire_after=given["expire_after"], weight=given["weight"],
    )  # fmt: skip


def _ask(http: Client, call: tuple[str, str], how: How, yes: bool, body: Mapping[str, Any]) -> None:
    """Begin what usually destroys nothing; when the plan says that nodes go, it is shown and agreed to first."""
    method, path = call
    plan = http.call(method, path, body=body, query={"dry_run": True})
    if how.dry_run or not plan.get("approval"):
        begin(http, method, path, how, body)
        return
    agree(plan, yes)
    begin(http, method, path, How(how.wait, how.output, query={"approval": plan["approval"]}), body)


def _show_pools(pools: list[dict[str, Any]], output: show.Format) -> None:
    columns: show.Columns = {
        "POOL": "name",
        "READY": "ready",
        "NODES": "nodes",
        "GROUPS": lambda p: ", ".join(p["instance_groups"]),
        "TYPES": lambda p: ", ".join(p["instance_types"]),
        "LIMITS": lambda p: ", ".join(f"{k}={v}" for k, v in p["limits"].items()),
        "IDLE NODES GO": lambda p: f"{p['consolidation_policy']} after {p['consolidate_after']}",
        "BECAUSE": "because",
    }
    show.rows(pools, columns, output, empty="No node pools.")
