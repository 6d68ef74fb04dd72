"""``instantstart audit``: who did what, and who was refused, as a list or as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.faces.cli import files, show, times
from instantstart.faces.cli.session import TABLE, Output, client

app = typer.Typer(help="Who did what, and who was refused (administrators).", no_args_is_help=True)

Identity = Annotated[str | None, typer.Option(help="Only calls of this identity.")]
Face = Annotated[str | None, typer.Option(help="Only calls through api, console, cli or mcp.")]
Action = Annotated[str | None, typer.Option(help="Only this action, such as token_create.")]
Outcome = Annotated[str | None, typer.Option(help="done, refused (at the door) or failed.")]
Cluster = Annotated[str | None, typer.Option(help="Only on this cluster.")]
Target = Annotated[str | None, typer.Option(help="Only what was made, begun or changed under this name or id, or a part of it.")]
OperationId = Annotated[str | None, typer.Option(help="Only calls on this operation.")]
After = Annotated[
    str | None,
    typer.Option(parser=times.moment, metavar="MOMENT", help="From this moment on: 2h (ago), yesterday, 2026-11-30, 2026-11-30T12:00:00Z."),
]
Before = Annotated[str | None, typer.Option(parser=times.moment, metavar="MOMENT", help="Before this moment, said in the same ways.")]
Contains = Annotated[str | None, typer.Option("--text", help="In the name, address, path, summary or problem code.")]
OldestFirst = Annotated[bool, typer.Option("--oldest-first", help="The other way round.")]


def _asked(**given: Any) -> dict[str, Any]:
    oldest = given.pop("oldest_first")
    return {name: value for name, value in given.items() if value is not None} | ({"order": "oldest"} if oldest else {})


def _what(line: show.Row) -> str:
    """The action; where the target does not tell it already, with the values of the address."""
    told = str(line["summary"])
    if not line["target"] or not line["action"]:
        return told
    rest = told.find(" (")
    return str(line["action"]) + (" dry_run=true" if "dry_run=true" in told else "") + (told[rest:] if rest > 0 else "")


@app.command("list")
def list_lines(
    identity: Identity = None,
    face: Face = None,
    action: Action = None,
    outcome: Outcome = None,
    cluster: Cluster = None,
    operation_id: OperationId = None,
    target: Target = None,
    after: After = None,
    before: Before = None,
    text: Contains = None,
    oldest_first: OldestFirst = False,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Most lines to show.")] = 30,
    output: Output = TABLE,
) -> None:
    """List the audit log, newest first."""
    asked = _asked(
        identity=identity, face=face, action=action, outcome=outcome, cluster=cluster, operation_id=operation_id,
        target=target, after=after, before=before, text=text, oldest_first=oldest_first,
    )  # fmt: skip
    with client() as http:
        found = list(http.pages("/audit", limit, **asked))
    columns: show.Columns = {
        "AT": lambda a: show.moment(a["at"]), "WHO": lambda a: a["name"] or a["caller"], "FROM": "address", "FACE": "face",
        "WHAT": _what, "TARGET": "target", "STATUS": "status", "CODE": "code", "OPERATION": "operation_id",
    }  # fmt: skip
    show.rows(found, columns, output, empty="No line matches.")


@app.command("export")
def export_lines(
    file: Annotated[str, typer.Argument(help="File to write, for this user only; '-' is standard output.")] = "-",
    form: Annotated[str, typer.Option(help="csv or jsonl.")] = "csv",
    force: files.Force = False,
    identity: Identity = None,
    face: Face = None,
    action: Action = None,
    outcome: Outcome = None,
    cluster: Cluster = None,
    operation_id: OperationId = None,
    target: Target = None,
    after: After = None,
    before: Before = None,
    text: Contains = None,
    oldest_first: OldestFirst = False,
) -> None:
    """Write every line that matches as CSV (no cell is a formula) or JSON Lines."""
    asked = _asked(
        identity=identity, face=face, action=action, outcome=outcome, cluster=cluster, operation_id=operation_id,
        target=target, after=after, before=before, text=text, oldest_first=oldest_first,
    )  # fmt: skip
    with client() as http:
        pieces = http.download("/audit/export", {**asked, "form": form})
        if file == "-":
            for piece in pieces:
                sys.stdout.write(piece.decode("utf-8", "replace"))
            return
        size = files.write(Path(file), pieces, force)
    show.note(f"Wrote {file} ({size:,} bytes).")
