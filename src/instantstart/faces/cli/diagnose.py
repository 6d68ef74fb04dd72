"""``instantstart diagnose ...``: why something is not as it should be: causes, what speaks for them, what to do. It changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from instantstart.base import terminal
from instantstart.base.counting import counted
from instantstart.faces.cli import paths, show
from instantstart.faces.cli.session import TABLE, ClusterArgument, Output, chosen_cluster, client
from instantstart.faces.cli.steps import cluster_path

app = typer.Typer(help="Find out why something is not as it should be; changes nothing.", no_args_is_help=True)

Cluster = Annotated[str | None, typer.Option("--cluster", "-c", help="Tag of the cluster; left out: the selected one.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Its namespace.")]
Kind = Annotated[str, typer.Option("--kind", help="Kind of the job: pytorch, ray_job or ray_cluster.")]
Detail = Annotated[bool, typer.Option("--detail", help="All causes and evidence, longer excerpts.")]


@app.command()
def cluster(cluster: ClusterArgument = None, detail: Detail = False, output: Output = TABLE) -> None:
    """Say why making a cluster failed, or does not end."""
    _ask(cluster, "/diagnosis", output, detail=detail)


@app.command()
def node(
    node: Annotated[str, typer.Argument(help="Instance id, Kubernetes name or logical id.")],
    cluster: Cluster = None,
    detail: Detail = False,
    output: Output = TABLE,
) -> None:
    """Say what is wrong with a node."""
    _ask(cluster, f"/nodes{paths.joined(node)}/diagnosis", output, detail=detail)


@app.command()
def job(
    name: Annotated[str, typer.Argument(help="Name of the job.")],
    namespace: Namespace = "default",
    kind: Kind = "pytorch",
    cluster: Cluster = None,
    detail: Detail = False,
    output: Output = TABLE,
) -> None:
    """Say why a training job does not run, or failed."""
    _ask(cluster, f"/training-jobs{paths.joined(kind, namespace, name)}/diagnosis", output, detail=detail)


@app.command()
def endpoint(
    name: Annotated[str, typer.Argument(help="Name of the endpoint.")],
    namespace: Namespace = "default",
    cluster: Cluster = None,
    detail: Detail = False,
    output: Output = TABLE,
) -> None:
    """Say why a managed endpoint does not answer."""
    _ask(cluster, f"/inference-endpoints{paths.joined(namespace, name)}/diagnosis", output, detail=detail)


@app.command()
def deployment(
    name: Annotated[str, typer.Argument(help="Name of the deployment.")],
    namespace: Namespace = "default",
    cluster: Cluster = None,
    detail: Detail = False,
    output: Output = TABLE,
) -> None:
    """Say why a model deployment does not answer."""
    _ask(cluster, f"/model-deployments{paths.joined(namespace, name)}/diagnosis", output, detail=detail)


@app.command()
def nccl(
    job: Annotated[str | None, typer.Argument(help="Name of the job; left out: the cluster's side alone.")] = None,
    namespace: Namespace = "default",
    kind: Kind = "pytorch",
    cluster: Cluster = None,
    detail: Detail = False,
    output: Output = TABLE,
) -> None:
    """Say why the communication between the nodes of a job hangs, fails or is slow."""
    _ask(cluster, "/diagnosis/nccl", output, job=job, namespace=namespace, job_kind=kind, detail=detail)


def _ask(tag: str | None, path: str, output: show.Format, **query: Any) -> None:
    asked = {key: value for key, value in query.items() if value not in (None, False)}
    with client() as http:
        told = http.get(cluster_path(chosen_cluster(http, tag)) + path, **asked)
    if output is not TABLE:
        show.data(told, output)
        return
    _print(told)


def _print(told: Mapping[str, Any]) -> None:
    """How it stands; the causes in a table; then each with its evidence and steps; at last what was looked at and what not."""
    show.note(told["standing"])
    if not told["causes"]:
        show.note(told["verdict"])
    else:
        show.rows([{"rank": at, **each} for at, each in enumerate(told["causes"], 1)], _CAUSES, TABLE)
    for at, each in enumerate(told["causes"], 1):
        show.note(f"\n{at}. {each['code']}")
        show.rows(each["evidence"], _EVIDENCE, TABLE, empty="   No evidence of its own.")
        show.rows(each["next_steps"], _STEPS, TABLE, empty="   No steps.")
    if told["causes_omitted"]:
        show.note(f"{counted(told['causes_omitted'], 'more cause')}: --detail")
    if told["causes"]:
        show.note(f"\nLooked at: {', '.join(told['looked_at'])}.")
    for each in told["unread"]:
        show.note(f"Not read: {each['part']}: {each['because']}")
    show.note("Nothing was changed. Text in quotes was written by others.")


def _quoted(evidence: Mapping[str, Any]) -> str:
    said = evidence["untrusted_text"]
    return f'{evidence["text"]} "{terminal.shown(said)}"' if said else str(evidence["text"])


_CAUSES: show.Columns = {"#": "rank", "CONFIDENCE": "confidence", "CODE": "code", "CAUSE": "text"}
_EVIDENCE: show.Columns = {
    "SOURCE": "source", "WHERE": "reference", "AT": lambda e: (e["at"] or "")[:19], "SEEN": _quoted,
}  # fmt: skip
_STEPS: show.Columns = {"STEP": "rung", "WHAT": "text", "TOOL": "tool"}
