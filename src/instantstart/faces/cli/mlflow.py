"""``instantstart mlflow ...``: tracking servers and apps, the pods' way to them, the runs they recorded, and sharing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.faces.cli import files, show
from instantstart.faces.cli.agreeing import Yes, begin_agreed, begin_costly
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import part
from instantstart.faces.cli.placed import Cluster, Cursor, Limit
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import How, Spec, asked, begin, cluster_path

app = typer.Typer(help="MLflow: tracking servers and apps, recorded runs, sharing.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the tracking server or app.")]
NewName = Annotated[str | None, typer.Argument(help="Name; left out: one derived from the cluster's tag.")]
App = Annotated[bool, typer.Option("--app", help="It is an MLflow app, not a tracking server.")]
Store = Annotated[str | None, typer.Option("--artifacts", help="Folder in S3; left out: one in the cluster's data bucket.")]
Namespaces = Annotated[list[str] | None, typer.Option("--namespace", "-n", help="Namespace of training pods; may be given again.")]
Register = Annotated[bool | None, typer.Option("--register-models", help="Also register logged models in SageMaker.")]
Maintenance = Annotated[str | None, typer.Option(help="Start of the weekly maintenance, UTC, such as Tue:03:30.")]
From = Annotated[str | None, typer.Option("--from", help="Name or ARN of the tracking server or app; left out: the cluster's own.")]
Experiments = Annotated[list[str] | None, typer.Option("--experiment", "-e", help="Only of this experiment; may be given again.")]
Filter = Annotated[str | None, typer.Option("--filter", help="In MLflow's words, such as: metrics.loss < 0.5")]
Order = Annotated[str | None, typer.Option("--sort", help="In MLflow's words, such as: metrics.loss ASC")]
RunIds = Annotated[list[str], typer.Argument(help="Ids of runs.")]


def _base(http: Client, cluster: str | None) -> str:
    return cluster_path(chosen_cluster(http, cluster))


def _one(http: Client, cluster: str | None, name: str, is_app: bool) -> str:
    return f"{_base(http, cluster)}/mlflow/{'app' if is_app else 'tracking_server'}/{part(name)}"


@app.command("list")
def list_mlflow(cluster: Cluster = None, output: Output = TABLE) -> None:
    """List tracking servers and apps, and whether training pods reach them."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/mlflow")
    columns: show.Columns = {
        "KIND": "kind", "NAME": "name", "STATUS": "status", "USABLE": "usable", "OURS": "ours", "PODS": "pods", "VERSION": "version",
        "WHY": "why",
    }  # fmt: skip
    show.page(told, columns, output, empty="No tracking servers or apps.")
    if output is TABLE:
        _say_access(told["access"])


def _say_access(access: dict[str, Any]) -> None:
    """The pods' way in a sentence, and the links that do not hold."""
    if access["unread"]:
        show.note(f"Whether training pods reach MLflow cannot be told: {access['unread']}")
        return
    if not access["links"]:
        show.note("Training pods reach none of them yet: instantstart mlflow grant NAME")
        return
    where = ", ".join(f"{namespace}/{access['service_account']}" for namespace in access["namespaces"])
    show.note(f"Training pods log under {where}." if access["granted"] else "The training pods' way is broken:")
    for link in access["links"]:
        if link["status"] != "ok":
            show.note(f"  {link['link']}: {link['detail']}")


@app.command("get")
def get_mlflow(name: NameArgument, is_app: App = False, cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show a tracking server or app in full."""
    with client() as http:
        show.thing(http.get(_one(http, cluster, name, is_app)), output)


@app.command("create-server")
def create_server(
    name: NewName = None,
    size: Annotated[str | None, typer.Option(help="Small, Medium or Large.")] = None,
    version: Annotated[str | None, typer.Option(help="MLflow version; left out: SageMaker's newest.")] = None,
    artifacts: Store = None,
    namespace: Namespaces = None,
    register_models: Register = None,
    maintenance: Maintenance = None,
    cluster: Cluster = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Make a tracking server that training pods may log to: up to 25 minutes, paid by the hour."""
    body = asked(
        file, name=name, size=size, version=version, artifact_store=artifacts, namespaces=namespace, register_models=register_models,
        maintenance=maintenance,
    )  # fmt: skip
    with client() as http:
        begin_costly(http, _base(http, cluster) + "/mlflow/tracking_server", How(wait, output, dry_run), yes, body)


@app.command("create-app")
def create_app(
    name: NewName = None,
    artifacts: Store = None,
    namespace: Namespaces = None,
    register_models: Register = None,
    maintenance: Maintenance = None,
    account_default: Annotated[bool | None, typer.Option("--account-default", help="Make it the account's default app.")] = None,
    cluster: Cluster = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Make an MLflow app that training pods may log to: the newer form, ready in minutes."""
    body = asked(
        file, name=name, artifact_store=artifacts, namespaces=namespace, register_models=register_models, maintenance=maintenance,
        account_default=account_default,
    )  # fmt: skip
    with client() as http:
        begin(http, "POST", _base(http, cluster) + "/mlflow/app", How(wait, output, dry_run), body)


@app.command("delete")
def delete_mlflow(
    name: NameArgument, is_app: App = False, cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """Delete a tracking server or app with all that it recorded; artifacts stay."""
    with client() as http:
        begin_agreed(http, ("DELETE", _one(http, cluster, name, is_app)), How(wait, output, dry_run), yes)


@app.command("open")
def open_mlflow(name: NameArgument, is_app: App = False, cluster: Cluster = None, output: Output = TABLE) -> None:
    """Print a one-time address of MLflow's own pages. Whoever has it is signed in."""
    with client() as http:
        told = http.call("POST", _one(http, cluster, name, is_app) + "/link")
    show.done(f"Good once, for {told['expires_in_seconds']} seconds:", told, output)
    if output is TABLE:
        sys.stdout.write(told["url"] + "\n")


@app.command("grant")
def grant(
    name: NameArgument, is_app: App = False, namespace: Namespaces = None, cluster: Cluster = None, dry_run: DryRun = False,
    wait: Wait = True, output: Output = TABLE,
) -> None:  # fmt: skip
    """Let training pods of some namespaces log to a tracking server or app."""
    with client() as http:
        path = _one(http, cluster, name, is_app) + "/access"
        begin(http, "POST", path, How(wait, output, dry_run), asked(None, namespaces=namespace))


@app.command("share")
def share(
    name: NameArgument,
    to: Annotated[str, typer.Option("--to", help="ARN of the tracking server or app of the other account.")],
    role: Annotated[str, typer.Option("--role", help="ARN of the role of that account to act as.")],
    is_app: App = False,
    external_id: Annotated[str | None, typer.Option(help="External ID, where the role's trust asks for one.")] = None,
    experiment: Experiments = None,
    filter_: Filter = None,
    prefix: Annotated[str | None, typer.Option(help="Before each experiment's name there; left out: the account and a slash.")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs copied at the same time.")] = None,
    cluster: Cluster = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Copy complete runs into another account's MLflow. --dry-run shows what its role must allow."""
    body = asked(
        None, destination=to, role_arn=role, external_id=external_id, experiments=experiment, filter=filter_, prefix=prefix, workers=workers
    )
    with client() as http:
        begin(http, "POST", _one(http, cluster, name, is_app) + "/shares", How(wait, output, dry_run), body)


# --- what was recorded


@app.command("experiments")
def list_experiments(from_: From = None, limit: Limit = 50, cursor: Cursor = None, cluster: Cluster = None, output: Output = TABLE) -> None:
    """List experiments, newest change first."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/training-experiments", tracking=from_, limit=limit, cursor=cursor)
    columns: show.Columns = {"ID": "id", "NAME": "name", "CHANGED": lambda e: show.moment(e["updated_at"])}
    show.page(told, columns, output, empty="No experiments.")


@app.command("runs")
def list_runs(
    from_: From = None, experiment: Experiments = None, filter_: Filter = None, sort: Order = None, limit: Limit = 20,
    cursor: Cursor = None, cluster: Cluster = None, output: Output = TABLE,
) -> None:  # fmt: skip
    """List recorded runs, newest first: how they went, and how fast."""
    query = {"tracking": from_, "experiment": experiment, "filter": filter_, "order_by": sort, "limit": limit, "cursor": cursor}
    with client() as http:
        told = http.get(_base(http, cluster) + "/training-runs", **query)
    columns: show.Columns = {
        "ID": "id", "NAME": "name", "EXPERIMENT": "experiment", "STATUS": "status", "STARTED": lambda r: show.moment(r["started_at"]),
        "TOOK": lambda r: show.duration(r["duration_seconds"]), "THROUGHPUT": _speed, "LOSS": lambda r: _figure(r["metrics"].get("loss")),
        "JOB": "job",
    }  # fmt: skip
    show.page(told, columns, output, empty="No runs.")


def _speed(run: show.Row) -> str:
    speed = run["throughput"]
    return f"{_figure(speed['value'])} {speed['unit']}" if speed else ""


def _figure(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, (int, float)) else ""


@app.command("run")
def get_run(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")], from_: From = None, cluster: Cluster = None, output: Output = TABLE
) -> None:
    """Show one run in full."""
    with client() as http:
        show.thing(http.get(f"{_base(http, cluster)}/training-runs/{part(run_id)}", tracking=from_), output)


@app.command("compare")
def compare(run_ids: RunIds, from_: From = None, cluster: Cluster = None, output: Output = TABLE) -> None:
    """Parameters and latest metrics of runs side by side, what differs first."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/training-runs/compare", tracking=from_, run=run_ids)
    if output is not TABLE:
        show.data(told, output)
        return
    lines = [{"what": kind[:-1], **line} for kind in ("params", "metrics") for line in told[kind]]
    columns: dict[str, Any] = {"WHAT": "what", "NAME": "name", "DIFFERS": "differs"}
    columns |= {_title(run, at): _column(at) for at, run in enumerate(told["runs"])}
    show.rows(lines, columns, output, "Nothing was recorded in them.")


def _title(run: show.Row, at: int) -> str:
    return f"{at + 1}: {run['name'] or run['id'][:8]}"


def _column(at: int) -> Any:
    return lambda line: line["values"][at] if line["what"] == "param" else _figure(line["values"][at])


@app.command("metrics")
def metrics(
    run_ids: RunIds,
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Name of a metric; may be given again.")] = None,
    points: Annotated[int, typer.Option(help="Most points of each curve.")] = 500,
    from_: From = None,
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """Metrics of runs over their steps: least, greatest and last; every point with -o json."""
    query = {"tracking": from_, "run": run_ids, "metric": metric, "points": points}
    with client() as http:
        told = http.get(_base(http, cluster) + "/training-runs/metrics", **query)
    if output is not TABLE:
        show.data(told, output)
        return
    columns: show.Columns = {
        "RUN": "run_id", "METRIC": "metric", "VALUES": "total", "LEAST": lambda s: _figure(min(_values(s), default=None)),
        "GREATEST": lambda s: _figure(max(_values(s), default=None)), "LAST": lambda s: _figure(next(reversed(_values(s)), None)),
    }  # fmt: skip
    show.rows(told["series"], columns, output, "Nothing was recorded.")


def _values(series: show.Row) -> list[float]:
    return [value for _, _, value in series["points"] if value is not None]


@app.command("export")
def export(
    to: Annotated[Path | None, typer.Option("--to", help="File to write; left out: standard output.")] = None,
    force: files.Force = False,
    from_: From = None,
    experiment: Experiments = None,
    filter_: Filter = None,
    sort: Order = None,
    cluster: Cluster = None,
) -> None:
    """Recorded runs as comma-separated values, 10,000 at most."""
    with client() as http:
        query = {"tracking": from_, "experiment": experiment, "filter": filter_, "order_by": sort}
        pieces = http.download(_base(http, cluster) + "/training-runs/export", query)
        if to is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            return
        size = files.write(to, pieces, force)
    show.note(f"Wrote {to} ({size:,} bytes).")
