"""``instantstart operation ...``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from instantstart.faces.cli import show, watch
from instantstart.faces.cli.paths import part
from instantstart.faces.cli.session import TABLE, Output, Wait, client

app = typer.Typer(help="What runs and what ran: look, follow, retry, cancel.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="Id of the operation.")]


@app.command("list")
def list_operations(
    status: Annotated[list[str] | None, typer.Option(help="Only this status; may be given again.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only this workflow, such as cluster.create.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Only this cluster.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only what this identity asked for.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Most operations to show.")] = 30,
    output: Output = TABLE,
) -> None:
    """List operations, newest first."""
    with client() as http:
        found = list(http.pages("/operations", limit, status=status or None, workflow=workflow, cluster=cluster, mine=mine or None))
    columns: show.Columns = {
        "ID": "id", "OPERATION": "workflow", "CLUSTER": "cluster", "STATUS": "status", "STAGE": _stage,
        "ELAPSED": lambda o: show.duration(o["elapsed_seconds"]), "ASKED": lambda o: show.moment(o["created_at"]),
    }  # fmt: skip
    show.rows(found, columns, output, empty="No operations.")


def _stage(operation: show.Row) -> str | None:
    stages = operation["stages"]
    now = next((s for s in stages if s["status"] not in ("done", "skipped", "pending")), None)
    return str(now["name"]) if now else None


@app.command()
def get(operation_id: Id, output: Output = TABLE) -> None:
    """Show one operation with its stages."""
    with client() as http:
        operation = http.get(f"/operations/{part(operation_id)}")
    if output is not TABLE:
        show.data(operation, output)
        return
    show.out().print(watch.picture(operation))
    if operation.get("problem"):
        show.problem(operation["problem"])
    if operation.get("next_step"):
        show.note(f"Next: {operation['next_step']}")
    if operation.get("result"):
        show.thing(operation["result"], output)


@app.command()
def events(
    operation_id: Id, after: Annotated[int, typer.Option(min=0, help="Only events above this sequence.")] = 0, output: Output = TABLE
) -> None:
    """List what happened in an operation."""
    found: list[Any] = []
    with client() as http:
        while True:
            page = http.get(f"/operations/{part(operation_id)}/events", after=after, limit=500)
            found.extend(page["items"])
            if len(page["items"]) < 500:
                break
            after = page["last_seq"]
    columns: show.Columns = {"AT": lambda e: show.moment(e["at"]), "STAGE": "stage", "LEVEL": "level", "EVENT": "message"}
    show.rows(found, columns, output, empty="No events.")


@app.command("watch")
def watch_operation(operation_id: Id, output: Output = TABLE) -> None:
    """Follow an operation to its end. Ctrl-C stops watching, not the operation."""
    with client() as http:
        last = watch.follow(http, http.get(f"/operations/{part(operation_id)}"), output)
    raise typer.Exit(watch.verdict(last, output))


@app.command()
def retry(operation_id: Id, wait: Wait = True, output: Output = TABLE) -> None:
    """Go on at the stage that failed or is blocked."""
    _act(operation_id, "retry", wait, output)


@app.command()
def cancel(operation_id: Id, output: Output = TABLE) -> None:
    """Stop an operation after the act in flight. What was made stays."""
    _act(operation_id, "cancel", False, output)


@app.command()
def approve(operation_id: Id, wait: Wait = True, output: Output = TABLE) -> None:
    """Let an operation begin that waits for a person's yes."""
    _act(operation_id, "approve", wait, output)


@app.command()
def reject(operation_id: Id, output: Output = TABLE) -> None:
    """End an operation that waits for a person's yes."""
    _act(operation_id, "reject", False, output)


def _act(operation_id: str, verb: str, wait: bool, output: show.Format) -> None:
    with client() as http:
        operation = http.call("POST", f"/operations/{part(operation_id)}:{verb}")
        if wait:
            raise typer.Exit(watch.verdict(watch.follow(http, operation, output), output))
    if output is TABLE:
        show.note(f"{operation['title']}: {operation['status']}" + (", stopping" if operation.get("cancelling") else "") + ".")
        return
    show.data(operation, output)
