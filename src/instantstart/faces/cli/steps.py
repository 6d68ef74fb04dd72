"""What the commands that begin operations share: the request, how it is begun and shown, and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.faces.cli import files, paths, show, watch
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.session import TABLE

Tag = Annotated[str | None, typer.Option(help="Short name of the cluster; left out: one is made up.")]
Region = Annotated[str | None, typer.Option(help="AWS region; left out: the server's own.")]
Zone = Annotated[str | None, typer.Option(help="Availability zone of the nodes, name or id.")]
InstanceType = Annotated[str | None, typer.Option("--type", "--instance-type", help="SageMaker instance type, such as ml.g5.8xlarge.")]
Count = Annotated[int | None, typer.Option("--count", help="Number of nodes.")]
Capacity = Annotated[str | None, typer.Option(help="on_demand, spot or training_plan.")]
Plan = Annotated[str | None, typer.Option("--training-plan", help="ARN of the training plan.")]
Bucket = Annotated[str | None, typer.Option(help="An existing S3 bucket to mount; left out: one is made.")]
Checks = Annotated[
    list[str] | None, typer.Option("--deep-health-check", help="InstanceStress or InstanceConnectivity; may be given again.")
]
Spec = Annotated[
    Path | None, typer.Option("--file", "-f", help="YAML or JSON file with any field of the request, or -; options win over it.")
]


@dataclass(frozen=True)
class How:
    """How to begin an operation, and how to show it."""

    wait: bool = True
    output: show.Format = TABLE
    dry_run: bool = False
    query: Mapping[str, Any] = field(default_factory=dict)


def cluster_path(tag: str) -> str:
    """The address of a cluster. Raises Invalid for a tag that would be another address."""
    return f"/clusters/{paths.part(tag, 'tag of a cluster')}"


def asked(file: Path | None, **options: Any) -> dict[str, Any]:
    """The request body: the file's fields, then every option that was given. Raises Invalid for a file that is no mapping."""
    told = files.fields_of(file) if file is not None else {}
    return {**told, **{name: value for name, value in options.items() if value not in (None, [])}}


def begin(http: Client, method: str, path: str, how: How, body: Mapping[str, Any] | None = None) -> None:
    """Ask for an operation, then follow it, or show it and come back. Exits with its status."""
    answer = http.call(method, path, body=body, query={**how.query, "dry_run": how.dry_run or None})
    if how.dry_run:
        show_plan(answer, how.output)
        return
    if "stages" not in (answer or {}):  # equal already: nothing was started
        _say_already(answer or {}, how.output)
        return
    if how.wait:
        raise typer.Exit(watch.verdict(watch.follow(http, answer, how.output), how.output))
    if how.output is TABLE:
        show.note(f"{answer['title']}: {answer['status']}. Follow it: instantstart operation watch {answer['id']}")
        return
    show.data(answer, how.output)


def _say_already(answer: Mapping[str, Any], output: show.Format) -> None:
    """Nothing was started: the plan says why, where the answer is one; else that the thing is as asked."""
    if output is not TABLE:
        show.data(answer, output)
    elif {"make", "change", "keep"} <= set(answer):
        show_plan(answer, output)
    else:
        named = (each for each in (answer, *answer.values()) if isinstance(each, Mapping) and each.get("name"))
        show.note(f"{next(named, {'name': 'It'})['name']} is as asked already; nothing was changed.")


def show_plan(plan: Mapping[str, Any], output: show.Format, *, note: bool = False) -> None:
    """Print what would be done, without the approval's secret. ``note``: on standard error, before the real thing."""
    if output is not TABLE:
        show.data(plan, output)
        return
    console = show.err() if note else show.out()
    for heading, value in plan.items():
        if heading.startswith("approval") or heading == "objects" or value in (None, [], {}, ""):  # manifests: --output yaml
            continue
        console.print(show.cell(heading.replace("_", " ").capitalize() + ":"), style="bold")
        for each in value if isinstance(value, list) else [value]:
            console.print("  ", _told(each), sep="")


def _told(item: Any) -> Any:
    if isinstance(item, Mapping) and {"level", "check", "detail"} <= set(item):  # a finding of the preflight
        return show.cell(f"{item['level']}: {item['check'].replace('_', ' ')}: {item['detail']} {item.get('hint') or ''}".rstrip())
    return show.cell(item)
