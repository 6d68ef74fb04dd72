"""``instantstart login``, ``context``, ``token``, ``audit``, ``me``: where to, as whom, and who did what."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from instantstart.faces.cli import contexts, session, show
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.session import TABLE, Output, client

tokens = typer.Typer(help="Make, list and revoke tokens (administrators).", no_args_is_help=True)
context = typer.Typer(help="The saved servers.", no_args_is_help=True)


def login(
    url: Annotated[str, typer.Argument(help="Address of the server.")] = "http://127.0.0.1:3099",
    token: Annotated[
        str | None,
        typer.Option(envvar=contexts.TOKEN_VARIABLE, help="The token; '-' reads it from standard input; asked for when left out."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the context.")] = "default",
) -> None:
    """Check a server and a token, and remember both for later commands."""
    address = contexts.check_url(url)
    secret = sys.stdin.readline().strip() if token == "-" else token or typer.prompt("Token", hide_input=True, err=True)  # noqa: S105
    http = Client(contexts.Context(address, secret, "login"), session.transport)
    try:
        who = http.get("/me")
    finally:
        http.close()
    contexts.remember(name, address, secret)
    show.note(f"Signed in at {address} as {who['name']} ({who['role']}); saved as context {name}.")


@context.command("list")
def list_contexts(output: Output = TABLE) -> None:
    """List the saved servers; tokens are not shown."""
    known = contexts.load()
    found = [{"name": name, "url": each["url"], "current": name == known["current"]} for name, each in sorted(known["contexts"].items())]
    show.rows(found, {"NAME": "name", "URL": "url", "CURRENT": "current"}, output, empty="No saved contexts. instantstart login URL")


@context.command("use")
def use_context(name: Annotated[str, typer.Argument(help="Name of the context.")]) -> None:
    """Make a saved server the current one."""
    contexts.choose(name)
    show.note(f"Now using {name}.")


@context.command("show")
def show_context(output: Output = TABLE) -> None:
    """Show which server would be spoken to, and why that one."""
    where = contexts.resolve()
    show.thing({"url": where.url, "token": "set" if where.token else "none", "source": where.source}, output)


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Who or what will use it.")],
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")] = "operator",
    kind: Annotated[str, typer.Option(help="person or agent.")] = "person",
    expires_in_days: Annotated[int | None, typer.Option(help="Days until it ends; left out: it does not.")] = None,
    output: Output = TABLE,
) -> None:
    """Make a token. It is printed once and kept nowhere."""
    asked = {"name": name, "role": role, "kind": kind} | ({"expires_in_days": expires_in_days} if expires_in_days is not None else {})
    with client() as http:
        made = http.call("POST", "/tokens", body=asked)
    if output is not TABLE:
        show.data(made, output)
        return
    show.note(f"Token of {made['identity']['name']} ({made['identity']['role']}), shown this once:")
    sys.stdout.write(made["token"] + "\n")


@tokens.command("list")
def list_tokens(output: Output = TABLE) -> None:
    """List the identities; tokens are not shown."""
    with client() as http:
        found = http.get("/tokens")["items"]
    columns: show.Columns = {
        "ID": "id", "NAME": "name", "ROLE": "role", "KIND": "kind", "LAST USED": lambda i: show.moment(i["last_used_at"]),
        "ENDS": lambda i: show.moment(i["expires_at"]), "REVOKED": lambda i: show.moment(i["revoked_at"]),
    }  # fmt: skip
    show.rows(found, columns, output)


@tokens.command("revoke")
def revoke_token(identity: Annotated[str, typer.Argument(help="Id of the identity.")], output: Output = TABLE) -> None:
    """End a token and its sessions at once."""
    with client() as http:
        ended = http.call("DELETE", f"/tokens/{identity}")
    if output is TABLE:
        show.note(f"{ended['name']}: revoked.")
        return
    show.data(ended, output)


def audit(
    identity: Annotated[str | None, typer.Option(help="Only calls of this identity.")] = None,
    face: Annotated[str | None, typer.Option(help="Only calls through api, console, cli or mcp.")] = None,
    operation_id: Annotated[str | None, typer.Option(help="Only calls on this operation.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Most lines to show.")] = 30,
    output: Output = TABLE,
) -> None:
    """List the audit log: who changed what, newest first (administrators)."""
    with client() as http:
        found = list(http.pages("/audit", limit, identity=identity, face=face, operation_id=operation_id))
    columns: show.Columns = {
        "AT": lambda a: show.moment(a["at"]), "WHO": "caller", "FACE": "face", "WHAT": "summary", "STATUS": "status",
        "OPERATION": "operation_id",
    }  # fmt: skip
    show.rows(found, columns, output, empty="Nothing was changed yet.")


def me(output: Output = TABLE) -> None:
    """Show the identity and the server in use."""
    with client() as http:
        show.thing({"server": http.context.url, **http.get("/me")}, output)
