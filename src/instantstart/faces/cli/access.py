"""``instantstart login``, ``logout``, ``context``, ``session``, ``me``: where to, as whom, and who is signed in."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from instantstart.base import problems
from instantstart.base.counting import counted
from instantstart.faces.cli import browser, contexts, files, session, show, tokens
from instantstart.faces.cli.agreeing import Yes, confirm
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import part
from instantstart.faces.cli.session import TABLE, Output, client

context = typer.Typer(help="The saved servers.", no_args_is_help=True)
sessions = typer.Typer(help="Who is signed in, with which browser or command line.", no_args_is_help=True)


def login(
    url: Annotated[str, typer.Argument(help="Address of the server.")] = "http://127.0.0.1:3099",
    token: Annotated[
        str | None,
        typer.Option(
            envvar=contexts.TOKEN_VARIABLE,
            show_envvar=True,
            help="The token; '-' reads it from standard input; asked for when left out. Other users of this machine may see it here.",
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="File with the token, such as a mounted secret.")] = None,
    name: Annotated[str, typer.Option(help="Name of the context.")] = "default",
    browse: Annotated[bool, typer.Option("--browser", help="Sign in at the identity provider with the browser; no token.")] = False,
    output: Output = TABLE,
) -> None:
    """Sign in at a server, with a token or the browser, and remember it for later commands."""
    address = contexts.check_url(url)
    secret = _by_browser(address) if browse else _given(token, token_file)
    http = Client(contexts.Context(address, secret, "login"), session.transport)
    try:
        who = http.get("/me")
    finally:
        http.close()
    contexts.remember(name, address, secret)
    text = f"Signed in at {address} as {who['name']} ({who['role']}); saved as context {name}."
    show.done(text, {"context": name, "url": address, "name": who["name"], "role": who["role"]}, output)


def _given(token: str | None, file: Path | None) -> str:
    """The token, from wherever it comes. Raises Invalid when there is none and nobody to ask."""
    if file is not None or token == "-":  # noqa: S105 - standard input
        told = files.text_of(file or files.STANDARD_INPUT).strip()
    elif token:
        told = token.strip()
    elif sys.stdin.isatty():
        told = str(typer.prompt("Token", hide_input=True, err=True)).strip()
    else:
        raise problems.Invalid(
            "login.no_token", "No token was given, and nobody is there to type one.",
            hint=f"Use --token-file FILE, or {contexts.TOKEN_VARIABLE}, or --token - with the token on standard input.",
        )  # fmt: skip
    if not told:
        raise problems.Invalid("login.no_token", "The token is empty.", hint="It begins with ist_; see: instantstart token create --help")
    return told


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


def logout(output: Output = TABLE) -> None:
    """End this command line's session on the server, and forget the secret of the current context."""
    with client() as http, contextlib.suppress(problems.Unauthenticated):  # it has ended there already: here it ends too
        http.call("DELETE", "/session")
    forgotten = contexts.forget_secret()
    text = f"Signed out; context {forgotten} has no secret any more." if forgotten else "Signed out; no context was in use."
    show.done(text, {"signed_out": True, "context": forgotten}, output)


@context.command("list")
def list_contexts(output: Output = TABLE) -> None:
    """List the saved servers; tokens are not shown."""
    known = contexts.load()
    found = [{"name": name, "url": each["url"], "current": name == known["current"]} for name, each in sorted(known["contexts"].items())]
    show.rows(found, {"NAME": "name", "URL": "url", "CURRENT": "current"}, output, empty="No saved contexts. instantstart login URL")


@context.command("use")
def use_context(name: Annotated[str, typer.Argument(help="Name of the context.")], output: Output = TABLE) -> None:
    """Make a saved server the current one."""
    contexts.choose(name)
    show.done(f"Now using {name}.", {"context": name, "url": contexts.load()["contexts"][name]["url"]}, output)


@context.command("show")
def show_context(output: Output = TABLE) -> None:
    """Show which server would be spoken to, and why that one."""
    where = contexts.resolve()
    show.thing({"url": where.url, "token": "set" if where.token else "none", "source": where.source}, output)


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
def revoke_session(session_id: Annotated[str, typer.Argument(help="Id of the session.")], yes: Yes = False, output: Output = TABLE) -> None:
    """End one session at once, with what it holds open; asks before."""
    confirm(f"Session {session_id} ends at once: its browser or command line must sign in again.", yes)
    with client() as http:
        http.call("DELETE", f"/sessions/{part(session_id)}")
    show.done(f"{session_id}: ended.", {"session": session_id, "ended": True}, output)


@sessions.command("revoke-all")
def revoke_sessions(identity: tokens.IdentityArgument, yes: Yes = False, output: Output = TABLE) -> None:
    """End every session of an identity at once; its token stays. Asks before."""
    with client() as http:
        known = tokens.id_of(http, identity)
        if not yes:
            confirm(f"{identity}: {tokens.told_sessions(http, known)} Its token goes on.", yes)
        told = http.call("DELETE", f"/tokens/{part(known)}/sessions")
    show.done(f"{counted(told['ended'], 'session')} ended.", told, output)


def me(output: Output = TABLE) -> None:
    """Show the identity and the server in use."""
    with client() as http:
        show.thing({"server": http.context.url, **http.get("/me")}, output)
