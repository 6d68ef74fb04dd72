"""Follow an operation in the terminal: live stages for a person, one line for each change where nobody looks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from instantstart.base import problems
from instantstart.faces.cli import show
from instantstart.faces.cli.client import Client

Json = Mapping[str, Any]
TERMINAL = frozenset({"succeeded", "failed", "cancelled"})
AT_REST = TERMINAL | {"blocked", "awaiting_approval"}
#: how long a server may be away (a restart) before watching gives up
PATIENCE_SECONDS = 120.0
_MARKS = {"done": "✔", "skipped": "✔", "failed": "✘", "blocked": "!", "running": "▸", "waiting": "▸", "pending": "·"}


def follow(http: Client, operation: Json, form: show.Format = show.Format.table) -> Json:
    """Show ``operation`` until it is at rest, and answer its last state. Ctrl-C leaves it running, and says so."""
    try:
        if show.err().is_terminal and form is show.Format.table:
            return _live(http, operation)
        return _lines(http, operation)
    except KeyboardInterrupt:
        show.note(f"\nNo longer watching; the operation goes on. Again: instantstart operation watch {operation['id']}")
        raise


def changes(http: Client, operation: Json, pause_seconds: int) -> Iterator[Json]:
    """The operation now, at every change, and at least every ``pause_seconds``, until it is at rest. Outlives a restart of the server."""
    away_since: float | None = None
    while True:
        yield operation
        if operation["status"] in AT_REST:
            return
        try:
            operation = http.get(f"/operations/{operation['id']}/wait", seconds=pause_seconds, after=operation["seq"])
            away_since = None
        except (problems.Unreachable, problems.Busy):
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > PATIENCE_SECONDS:
                raise
            time.sleep(1)


def _live(http: Client, operation: Json) -> Json:
    with Live(picture(operation), console=show.err(), refresh_per_second=4, transient=False) as live:
        for operation in changes(http, operation, 1):  # noqa: B020 - each answer replaces the one before
            live.update(picture(operation))
    return operation


def _lines(http: Client, operation: Json) -> Json:
    told: dict[str, str] = {}
    for operation in changes(http, operation, 20):  # noqa: B020 - each answer replaces the one before
        for stage in operation["stages"]:
            line = _line(stage)
            if stage["status"] != "pending" and told.get(stage["name"]) != line:
                told[stage["name"]] = line
                show.note(line)
    return operation


def _line(stage: Json) -> str:
    because = f": {stage['because']}" if stage["because"] and stage["status"] not in ("done", "skipped") else ""
    return f"{_MARKS[stage['status']]} {stage['says']} [{stage['status']}{_counted(stage)}]{because}"


def _counted(stage: Json) -> str:
    progress = stage.get("progress") if stage["status"] in ("running", "waiting", "blocked", "failed") else None
    return f" {progress['done']}/{progress['total']} {progress['unit']}" if progress else ""


def picture(operation: Json) -> Group:
    """The whole operation: a bar, and a line for each stage with its time beside the usual one."""
    stages = operation["stages"]
    finished = sum(1 for s in stages if s["status"] in ("done", "skipped"))
    head = Table.grid(padding=(0, 1))
    head.add_row(
        Text(str(operation["title"]), style="bold"),
        ProgressBar(total=max(len(stages), 1), completed=finished, width=30),
        Text(f"{finished}/{len(stages)}"),
        show.cell(operation["status"]),
        Text(f"{show.duration(operation['elapsed_seconds'])} of about {show.duration(operation['typical_seconds'])}"),
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(4):
        table.add_column(overflow="fold")
    for stage in stages:
        table.add_row(*_row(stage))
    return Group(head, table)


def _row(stage: Json) -> tuple[Text, Text, Text, Text]:
    style = show.STYLES.get(stage["status"], "")
    begun = stage["status"] not in ("pending", "skipped")
    took = f"{show.duration(stage['elapsed_seconds'])} / ~{show.duration(stage['typical_seconds'])}" if begun else ""
    because = str(stage["because"] or "") if stage["status"] not in ("done", "skipped") else ""
    slow = " (slower than usual)" if stage["slow"] and stage["status"] in ("running", "waiting") else ""
    return (
        Text(f"  {_MARKS[stage['status']]}", style=style),
        Text(str(stage["says"]), style=style if begun else "bright_black"),
        Text(took, style="yellow" if slow else "bright_black"),
        Text(f"{_counted(stage).strip()} {because}{slow}".strip()),
    )


def verdict(operation: Json, form: show.Format) -> int:
    """Print how an operation ended, or why it stands still, and answer the exit status."""
    if form is not show.Format.table:
        show.data(operation, form)
    elif operation["status"] == "succeeded":
        show.note(f"{operation['title']}: succeeded in {show.duration(operation['elapsed_seconds'])}.")
        if operation.get("result"):
            show.thing(operation["result"], form)
    else:
        show.note(f"{operation['title']}: {operation['status']}.")
        if operation.get("problem"):
            show.problem(operation["problem"])
        if operation.get("next_step"):
            show.note(f"Next: {operation['next_step']}")
            if operation["status"] == "blocked":
                show.note(f"Retry it: instantstart operation retry {operation['id']}")
    return 0 if operation["status"] == "succeeded" else 1
