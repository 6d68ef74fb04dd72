"""``instantstart logs``: what pods wrote, and with ``-f`` what they write; of one pod, a job, a deployment, an endpoint, or by labels.

Every line is foreign text: what would move the cursor, set the title or hide something is taken out before it reaches the terminal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

import typer

from instantstart.base import problems, terminal
from instantstart.faces.cli import files, show, times
from instantstart.faces.cli.client import API, Client
from instantstart.faces.cli.contexts import Context
from instantstart.faces.cli.session import TABLE, Output, chosen_cluster, client, context
from instantstart.faces.cli.steps import cluster_path

#: of the names in front of lines, one for each container in turn
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
#: how long a server may be away before following gives up; and between two tries (seconds)
PATIENCE_SECONDS, AGAIN_SECONDS = 120.0, 1.0
#: lines of many containers that wait to be put in order
_MOST_HELD = 20_000
_DROPPED = "{} lines were written faster than they could be shown, and are left out."

#: without -c, which is the container here
Cluster = Annotated[str | None, typer.Option("--cluster", help="Tag of the cluster; left out: the selected one.")]


@dataclass
class Printer:
    """Writes lines, with the container's name in front when there are several."""

    names: bool | None = None
    times: bool = False
    colours: bool = field(default_factory=lambda: sys.stdout.isatty())
    _known: dict[str, int] = field(default_factory=dict)

    def known(self, source: str) -> None:
        """One more container is read: from the second on, lines bear names."""
        self._known.setdefault(source, len(self._known))
        self.names = len(self._known) > 1

    def line(self, source: str, line: str) -> None:
        """One line as the server gives it: its time, a space, its text."""
        at, _, text = line.partition(" ")
        parts = [f"{terminal.shown(at)} "] if self.times else []
        if self.names:
            parts.append(self._name(source))
        sys.stdout.write("".join(parts) + terminal.shown(text, colours=self.colours) + "\n")

    def note(self, source: str, text: str) -> None:
        """What is no line goes beside them, to standard error."""
        whose = terminal.shown(source.partition("/")[2])
        show.note(f"[{whose}] {text}" if whose else text)

    def _name(self, source: str) -> str:
        name = f"[{terminal.shown(source.partition('/')[2])}] "
        if not self.colours:
            return name
        colour = _COLOURS[self._known.setdefault(source, len(self._known)) % len(_COLOURS)]
        return f"\x1b[{colour}m{name}\x1b[0m"


def logs(
    pod: Annotated[str | None, typer.Argument(help="Name of a pod; or use one of the options below.")] = None,
    job: Annotated[str | None, typer.Option("--job", help="All pods of this training job.")] = None,
    job_kind: Annotated[str | None, typer.Option("--job-kind", help="pytorch, ray_job, ray_cluster or batch.")] = None,
    deployment: Annotated[str | None, typer.Option("--deployment", help="All pods of this Deployment.")] = None,
    endpoint: Annotated[str | None, typer.Option("--endpoint", help="All pods of this inference endpoint.")] = None,
    selector: Annotated[str | None, typer.Option("--selector", "-l", help="All pods with these labels.")] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Kubernetes namespace.")] = "default",
    container: Annotated[str | None, typer.Option("--container", "-c", help="Only this container of each pod.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines are written, until Ctrl-C.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", help="Last lines of each container.")] = None,
    since: Annotated[
        int | None,
        typer.Option(
            "--since", parser=times.seconds, metavar="DURATION", help="Only lines of so long until now, such as 10m or 1h30m; or seconds."
        ),
    ] = None,
    search: Annotated[str | None, typer.Option("--search", help="Only lines with this text, in large or small letters.")] = None,
    context_lines: Annotated[int | None, typer.Option("--context", "-C", help="With --search: lines around each that is found.")] = None,
    previous: Annotated[bool, typer.Option("--previous", "-p", help="The run before the last restart.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Show the time of each line.")] = False,
    save: Annotated[Path | None, typer.Option("--save", help="Write all that is there into this file.")] = None,
    force: files.Force = False,
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """Show the last lines of logs, follow them, or save them to a file."""
    query = {
        "pod": pod, "job": job, "job_kind": job_kind, "deployment": deployment, "endpoint": endpoint, "selector": selector,
        "namespace": namespace, "container": container, "tail": tail, "since_seconds": since, "search": search, "context": context_lines,
    }  # fmt: skip
    asked = {name: value for name, value in query.items() if value is not None}
    with client() as http:
        path = f"{cluster_path(chosen_cluster(http, cluster))}/logs"
        if save is not None:
            _save(http, path, {**asked, "previous": previous or None}, (save, force))
        elif follow:
            _check_following(previous)
            _follow(context(), f"{path}/stream", asked, Printer(times=timestamps))
        else:
            _show(http.get(path, **asked, previous=previous or None, limit=5000), Printer(times=timestamps), output)


def _check_following(previous: bool) -> None:
    if previous:
        raise problems.Invalid("log.previous_followed", "A run that is over cannot be followed.", hint="Leave out --follow, or --previous.")


def _show(told: Mapping[str, Any], printer: Printer, output: show.Format) -> None:
    if output is not TABLE:
        show.data(told, output)
        return
    printer.names = len(told["containers"]) > 1
    for line in told["items"]:
        printer.line(f"{told['namespace']}/{line['pod']}/{line['container']}", f"{line['at']} {line['text']}")
    for container in told["containers"]:
        if container["unread"]:
            printer.note(f"{told['namespace']}/{container['pod']}/{container['container']}", container["unread"])
    if told["containers_omitted"]:
        show.note(f"{told['containers_omitted']} more containers are not shown; choose fewer.")
    if not told["items"]:
        show.note("No lines.")


def _save(http: Client, path: str, query: Mapping[str, Any], to: tuple[Path, bool]) -> None:
    size = files.write(to[0], http.download(f"{path}/download", query), force=to[1])
    show.note(f"Wrote {to[0]} ({size:,} bytes).")


# ---------------------------------------------------------------------- following


class _Cut(Exception):  # noqa: N818 - what happens to a wire
    """The connection was lost; there is more to come."""


@dataclass
class _Following:
    """What has been told, and what waits to be printed in the order of its time."""

    printer: Printer
    #: source -> how far it was told
    places: dict[str, str] = field(default_factory=dict)
    settled: bool = False
    _lines: list[tuple[str, str]] = field(default_factory=list)

    def take(self, events: list[dict[str, Any]]) -> None:
        """One message. Raises the Problem that the server tells."""
        for event in events:
            kind, source = event["type"], str(event.get("source", ""))
            if kind == "problem":
                raise problems.from_document(event["problem"])
            if kind == "source":
                self.printer.known(source)
            elif kind == "lines":
                self.places[source] = event["position"]
                self._lines += [(source, line) for line in event["text"][:-1].split("\n")]
            elif kind == "settled":
                self.settled = True
            else:
                self._print()
                self.printer.note(source, event["text"] if kind == "note" else _DROPPED.format(event["lines"]))
        if self.settled or len(self._lines) > _MOST_HELD:  # what was there at first comes from many containers one after the other
            self._print()
        sys.stdout.flush()

    def _print(self) -> None:
        for source, line in sorted(self._lines, key=lambda each: each[1].partition(" ")[0]):
            self.printer.line(source, line)
        self._lines.clear()


def _follow(where: Context, path: str, query: Mapping[str, Any], printer: Printer) -> None:
    """Print lines as they come; after a cut go on where it was. Raises the Problem that is told, Unreachable when the server stays away."""
    told = _Following(printer)
    away_since: float | None = None
    while True:
        try:
            for events in _messages(where, path, query, told.places):
                away_since = None
                told.take(events)
        except _Cut as cut:
            away_since = away_since or time.monotonic()
            if not told.settled or time.monotonic() - away_since > PATIENCE_SECONDS:  # one that never answered is told at once
                raise problems.Unreachable("server.unreachable", f"No InstantStart server answers at {where.url} ({cut}).") from cut
            time.sleep(AGAIN_SECONDS)


def _messages(where: Context, path: str, query: Mapping[str, Any], places: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """The server's messages over one connection. Raises _Cut when it ends without a word, Problem when it says why."""
    from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    parts = urlsplit(where.url)
    asked = {**query, **({"resume": "true"} if places else {})}
    address = f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{parts.path.rstrip('/')}{API}{path}?{urlencode(asked)}"
    headers = {"X-InstantStart-Face": "cli"} | ({"Authorization": f"Bearer {where.token}"} if where.token else {})
    try:
        with connect(address, additional_headers=headers, max_size=None, open_timeout=10) as socket:
            if places:
                socket.send(json.dumps({"after": dict(places)}))
            for message in socket:
                yield json.loads(message)
    except InvalidStatus as refusal:
        raise _refusal(refusal.response.body) from refusal
    except ConnectionClosed as closed:
        raise _Cut(str(closed)) from closed
    except (OSError, WebSocketException, TimeoutError) as error:
        raise _Cut(type(error).__name__) from error
    raise _Cut("closed")


def _refusal(body: bytes | bytearray | None) -> problems.Problem:
    try:
        return problems.from_document(json.loads(body or b""))
    except ValueError:
        return problems.Unreachable("server.not_instantstart", "What answers there is no InstantStart server.")
