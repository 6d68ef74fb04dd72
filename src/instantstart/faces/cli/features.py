"""``instantstart feature ...``: what a cluster has switched on, and switching it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import show, steps, watch
from instantstart.faces.cli.agreeing import Yes, agree
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.placed import Cluster
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import cluster_path

app = typer.Typer(help="Managed features: training and inference operators, checkpointing, observability and others.", no_args_is_help=True)

Feature = Annotated[str, typer.Argument(help="Name of the feature, such as training_operator; hyphens are taken, too.")]
Configuration = Annotated[
    str | None, typer.Option("--configuration", help="Configuration values of the add-on, as JSON; merged into those it has.")
]
Set = Annotated[list[str] | None, typer.Option("--set", help="A further field of the feature, as name=value, such as memory_percent=40.")]


@app.command("list")
def list_features(cluster: Cluster = None, output: Output = TABLE) -> None:
    """List the features of a cluster: on or off, why, and by whom."""
    with client() as http:
        told = http.get(_path(http, cluster))
    if output is not TABLE:
        show.data(told, output)
        return
    columns: show.Columns = {
        "NAME": "name", "STATE": "state", "VERSION": "version", "BY": "installed_by", "IDENTITY": _identity,
        "NEEDED BY": lambda f: ", ".join(f["needed_by"]), "WHY": "why",
    }  # fmt: skip
    show.rows(told["items"], columns, output)


def _identity(feature: show.Row) -> str | None:
    links = feature["identity"]
    good = sum(link["status"] == "ok" for link in links)
    return f"{good}/{len(links)} verified" if links else None


@app.command()
def get(feature: Feature, cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one feature, its identity chain link by link, and the versions that EKS offers."""
    with client() as http:
        told = http.get(f"{_path(http, cluster)}/{_name(feature)}")
    if output is not TABLE:
        show.data(told, output)
        return
    view = told["feature"]
    shown = {k: v for k, v in view.items() if k not in ("identity", "copies", "settings", "operation")}
    show.thing({**shown, **view["settings"], "versions": ", ".join(told["versions"]) or None}, output)
    if view["identity"]:
        show.rows(view["identity"], {"CHAIN": "chain", "LINK": "link", "STATUS": "status", "DETAIL": "detail"}, output)
    if view["copies"]:
        show.rows(view["copies"], {"COPY": "object", "ROLE": "role", "BY": "manager"}, output)
    if view["operation"]:
        show.note(f"Working on it: instantstart operation watch {view['operation']['id']}")


@app.command()
def enable(
    feature: Feature,
    cluster: Cluster = None,
    version: Annotated[str | None, typer.Option(help="Add-on version; left out: the default of EKS.")] = None,
    configuration: Configuration = None,
    adopt: Annotated[bool | None, typer.Option("--adopt", help="Use the copy that somebody else installed, as it is.")] = None,
    overwrite: Annotated[list[str] | None, typer.Option(help="Put ours in the place of this object, by the name the plan gives.")] = None,
    settings: Set = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Switch a feature on, with what it needs; or change what it is set to."""
    given = {"version": version, "configuration": _json(configuration), "adopt": adopt, "overwrite": overwrite or None, **_fields(settings)}
    ask = {"enabled": True, **{k: v for k, v in given.items() if v is not None}}
    with client() as http:
        _update(http, _path(http, cluster), {_name(feature): ask}, steps.How(wait, output, dry_run), yes=yes or not overwrite)


@app.command()
def disable(
    feature: Feature, cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE
) -> None:
    """Switch a feature off. Shows the plan, and asks; refused while anything rests on it."""
    with client() as http:
        _update(http, _path(http, cluster), {_name(feature): {"enabled": False}}, steps.How(wait, output, dry_run), yes=yes)


@app.command()
def plan(
    features: Annotated[list[str], typer.Argument(help="Features to switch: name=on or name=off, such as inference-operator=on.")],
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """Show what switching several features would do; nothing is changed."""
    body: dict[str, Any] = {}
    for text in features:
        name, _, word = text.partition("=")
        if word not in ("on", "off", ""):
            raise problems.Invalid("feature.word", f"{text}: say {name}=on or {name}=off.")
        body[_name(name)] = {"enabled": word != "off"}
    with client() as http:
        steps.show_plan(http.call("PATCH", _path(http, cluster), body=body, query={"dry_run": True}), output)


@app.command()
def upgrade(
    feature: Feature,
    cluster: Cluster = None,
    version: Annotated[str | None, typer.Option(help="Version to go to; left out: the default of EKS.")] = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Upgrade a feature that is an EKS add-on; its role and its values stay."""
    with client() as http:
        path = f"{_path(http, cluster)}/{_name(feature)}/upgrade"
        steps.begin(http, "POST", path, steps.How(wait, output, dry_run), {"version": version} if version else {})


@app.command()
def repair(
    features: Annotated[list[str] | None, typer.Argument(help="Features, or s3-csi and mlflow; left out: all that have drifted.")] = None,
    cluster: Cluster = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Put broken identity chains right again: trust, policies, annotations, associations, pods."""
    with client() as http:
        body = {"features": [_name(f) for f in features]} if features else {}
        steps.begin(http, "POST", f"{_path(http, cluster)}/repair", steps.How(wait, output, dry_run), body)


def _update(http: Client, path: str, body: dict[str, Any], how: steps.How, *, yes: bool) -> None:
    """Look at the plan first; with its approval where something is taken away, which a person confirms."""
    planned = http.call("PATCH", path, body=body, query={"dry_run": True})
    if how.dry_run:
        steps.show_plan(planned, how.output)
        return
    if planned.get("approval"):
        agree(planned, yes)
    told = http.call("PATCH", path, body=body, query={"approval": planned.get("approval")})
    if not told["changed"]:
        show.note("Already so; nothing was started.") if how.output is TABLE else show.data(told, how.output)
        return
    if not how.wait:
        _started(told, how)
        return
    ended = [watch.follow(http, operation, how.output) for operation in told["operations"]]
    worst = [code for code in (watch.verdict(operation, how.output) for operation in ended) if code]
    raise typer.Exit(worst[0] if worst else 0)


def _started(told: dict[str, Any], how: steps.How) -> None:
    if how.output is not TABLE:
        show.data(told, how.output)
        return
    for operation in told["operations"]:
        show.note(f"{operation['title']}: {operation['status']}. Follow it: instantstart operation watch {operation['id']}")


def _path(http: Client, cluster: str | None) -> str:
    return cluster_path(chosen_cluster(http, cluster)) + "/features"


def _name(text: str) -> str:
    """Names have underscores; a person may write hyphens."""
    return text.replace("-", "_")


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise problems.Invalid("feature.configuration", f"--configuration is no JSON: {error.msg} at character {error.pos}.") from error


def _fields(pairs: list[str] | None) -> dict[str, Any]:
    """``name=value`` pairs; a value that is JSON (a number, true, a list) is taken as such."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise problems.Invalid("feature.set", f"--set takes name=value, not {pair}.")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found
