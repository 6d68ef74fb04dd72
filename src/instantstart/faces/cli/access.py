"""``instantstart login``, ``logout``, ``context``, ``token``, ``session``, ``me``: where to, as whom, and who else may."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import browser, contexts, session, show
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import part
from instantstart.faces.cli.session import TABLE, Output, client

tokens = typer.Typer(help="People and agents who may enter, and their tokens (administrators).", no_args_is_help=True)
context = typer.Typer(help="The saved servers.", no_args_is_help=True)
sessions = typer.Typer(help="Who is signed in, with which browser or command line.", no_args_is_help=True)

IdentityArgument = Annotated[str, typer.Argument(help="Id of the identity.")]
ExpiresIn = Annotated[int | None, typer.Option(help="Days until it ends; left out: it does not.")]


def login(
    url: Annotated[str, typer.Argument(help="Address of the server.")] = "http://127.0.0.1:3099",
    token: Annotated[
        str | None,
        typer.Option(envvar=contexts.TOKEN_VARIABLE, help="The token; '-' reads it from standard input; asked for when left out."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the context.")] = "default",
    browse: Annotated[bool, typer.Option("--browser", help="Sign in at the identity provider with the browser; no token.")] = False,
) -> None:
    """Sign in at a server, with a token or the browser, and remember it for later commands."""
    address = contexts.check_url(url)
    secret = _by_browser(address) if browse else _given(token)
    http = Client(contexts.Context(address, secret, "login"), session.transport)
    try:
        who = http.get("/me")
    finally:
        http.close()
    contexts.remember(name, address, secret)
    show.note(f"Signed in at {address} as {who['name']} ({who['role']}); saved as context {name}.")


def _given(token: str | None) -> str:
    return sys.stdin.readline().strip() if token == "-" else token or str(typer.prompt("Token", hide_input=True, err=True))  # noqa: S105


def _by_browser(address: str) -> str:
    """The secret of a new session of this command line."""
    http = Client(contexts.Context(address, None, "login"), session.transport)
    try:
        if not http.get("/sign-in")["start"]:
            raise problems.NotFound("sign_in.no_provider", "That server has no identity provider.", hint="Sign in with a token.")
        with browser.Arrival() as arrival:
            begin = arrival.address(address)
            shown = arrival.open(begin)
            show.note(f"{'A browser shows' if shown else 'Open with a browser of this machine'}: {begin}")
            made = http.call("POST", "/session", body={"code": arrival.code(), "proof": arrival.secret})
    finally:
        http.close()
    return str(made["bearer"])


def logout() -> None:
    """End this command line's session on the server, and forget the secret of the current context."""
    with client() as http, contextlib.suppress(problems.Unauthenticated):  # it has ended there already: here it ends too
        http.call("DELETE", "/session")
    forgotten = contexts.forget_secret()
    show.note(f"Signed out; context {forgotten} has no secret any more." if forgotten else "Signed out; no context was in use.")


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
    expires_in_days: ExpiresIn = None,
    note: Annotated[str | None, typer.Option(help="What it is for, or whom to ask.")] = None,
    output: Output = TABLE,
) -> None:
    """Make a token. It is printed once and kept nowhere."""
    asked = {"name": name, "role": role, "kind": kind} | _given_only(expires_in_days=expires_in_days, note=note)
    with client() as http:
        _show_once(http.call("POST", "/tokens", body=asked), output)


def _given_only(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _show_once(made: dict[str, Any], output: show.Format) -> None:
    if output is not TABLE:
        show.data(made, output)
        return
    of = made["identity"]
    ends = f"ends {show.moment(of['expires_at'])}" if of["expires_at"] else "does not end"
    shut = "; it is disabled, and opens nothing until token update --enable" if of["disabled_at"] else ""
    show.note(f"Token of {of['name']} ({of['role']}; {ends}{shut}), shown this once:")
    sys.stdout.write(made["token"] + "\n")


@tokens.command("list")
def list_tokens(
    role: Annotated[str | None, typer.Option(help="Only this role.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only person, or only agent.")] = None,
    state: Annotated[str | None, typer.Option(help="active, disabled, expired or revoked.")] = None,
    text: Annotated[str | None, typer.Option(help="In the name, note or id.")] = None,
    sort: Annotated[str, typer.Option(help="created_at, name, role, kind or last_used_at.")] = "created_at",
    descending: Annotated[bool, typer.Option("--descending", help="The other way round.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Most to show.")] = 200,
    output: Output = TABLE,
) -> None:
    """List who may enter; tokens are not shown."""
    asked = _given_only(role=role, kind=kind, state=state, text=text)
    with client() as http:
        found = list(http.pages("/tokens", limit, sort=sort, descending=descending, **asked))
    columns: show.Columns = {
        "ID": "id", "NAME": "name", "ROLE": "role", "KIND": "kind", "STATE": _state, "LAST USED": lambda i: show.moment(i["last_used_at"]),
        "ENDS": lambda i: show.moment(i["expires_at"]), "NOTE": "note",
    }  # fmt: skip
    show.rows(found, columns, output)


def _state(identity: show.Row) -> str:
    if identity["revoked_at"]:
        return "revoked"
    if identity["expires_at"] and show.is_past(identity["expires_at"]):
        return "expired"
    return "disabled" if identity["disabled_at"] else "active"


@tokens.command("update")
def update_token(
    identity: IdentityArgument,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    role: Annotated[str | None, typer.Option(help="Another role, at once: viewer, operator or admin.")] = None,
    note: Annotated[str | None, typer.Option(help="Another note; empty takes it away.")] = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Keep out and end sessions, or let in again.")] = None,
    output: Output = TABLE,
) -> None:
    """Rename, note, disable or enable, or give another role."""
    with client() as http:
        changed = http.call("PATCH", f"/tokens/{part(identity)}", body=_given_only(name=name, role=role, note=note, disabled=disabled))
    if output is not TABLE:
        show.data(changed, output)
        return
    show.note(f"{changed['name']} ({changed['role']}): {_state(changed)}.")


@tokens.command("rotate")
def rotate_token(identity: IdentityArgument, expires_in_days: ExpiresIn = None, output: Output = TABLE) -> None:
    """Make a new token in place of the old one, which ends at once. It is printed once and kept nowhere."""
    with client() as http:
        _show_once(http.call("POST", f"/tokens/{part(identity)}:rotate", body=_given_only(expires_in_days=expires_in_days)), output)


@tokens.command("revoke")
def revoke_token(identity: IdentityArgument, output: Output = TABLE) -> None:
    """End an identity, its token and its sessions at once and for good."""
    with client() as http:
        ended = http.call("DELETE", f"/tokens/{part(identity)}")
    if output is TABLE:
        show.note(f"{ended['name']}: revoked.")
        return
    show.data(ended, output)


@sessions.command("list")
def list_sessions(
    everybody: Annotated[bool, typer.Option("--all", help="Everybody's (administrators); else your own.")] = False,
    identity: Annotated[str | None, typer.Option(help="Only of this identity (administrators).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Most to show.")] = 50,
    output: Output = TABLE,
) -> None:
    """List open sessions, newest first."""
    with client() as http:
        found = list(http.pages("/sessions", limit, whose="all" if everybody else "mine", identity=identity))
    columns: show.Columns = {
        "ID": "id", "NAME": "name", "ROLE": "role", "CLIENT": "client", "VIA": "via", "FROM": "address", "PROGRAM": "agent",
        "SEEN": lambda s: show.moment(s["last_seen_at"]), "ENDS": lambda s: show.moment(s["expires_at"]),
        "THIS": lambda s: "this one" if s["current"] else None,
    }  # fmt: skip
    show.rows(found, columns, output, empty="No open session.")


@sessions.command("revoke")
def revoke_session(session_id: Annotated[str, typer.Argument(help="Id of the session.")]) -> None:
    """End one session at once, with what it holds open."""
    with client() as http:
        http.call("DELETE", f"/sessions/{part(session_id)}")
    show.note(f"{session_id}: ended.")


@sessions.command("revoke-all")
def revoke_sessions(identity: IdentityArgument, output: Output = TABLE) -> None:
    """End every session of an identity at once; its token stays."""
    with client() as http:
        told = http.call("DELETE", f"/tokens/{part(identity)}/sessions")
    if output is TABLE:
        show.note(f"{told['ended']} sessions ended.")
        return
    show.data(told, output)


def me(output: Output = TABLE) -> None:
    """Show the identity and the server in use."""
    with client() as http:
        show.thing({"server": http.context.url, **http.get("/me")}, output)
