"""``instantstart token``: people and agents who may enter, and what they enter with. An identity is meant by its name or its id."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.base.counting import counted, plural
from instantstart.faces.cli import show
from instantstart.faces.cli.agreeing import Yes, confirm
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import part
from instantstart.faces.cli.session import TABLE, Output, client

app = typer.Typer(help="People and agents who may enter, and their tokens (administrators).", no_args_is_help=True)

IdentityArgument = Annotated[str, typer.Argument(help="Its name, or its id where several have that name.")]
_ID = re.compile(r"id-[0-9a-f]{16}")


@app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Who or what will use it.")],
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")] = "operator",
    kind: Annotated[str, typer.Option(help="person or agent.")] = "person",
    expires_in_days: Annotated[int | None, typer.Option(help="Days until it ends; left out: it does not.")] = None,
    note: Annotated[str | None, typer.Option(help="What it is for, or whom to ask.")] = None,
    output: Output = TABLE,
) -> None:
    """Make a token. It is printed once and kept nowhere."""
    asked = {"name": name, "role": role, "kind": kind} | given_only(expires_in_days=expires_in_days, note=note)
    with client() as http:
        _show_once(http.call("POST", "/tokens", body=asked), output)


def given_only(**values: Any) -> dict[str, Any]:
    """What was given."""
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


@app.command("list")
def list_tokens(
    role: Annotated[str | None, typer.Option(help="Only this role: viewer, operator or admin.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only person, or only agent.")] = None,
    state: Annotated[str | None, typer.Option(help="active, disabled, expired or revoked.")] = None,
    text: Annotated[str | None, typer.Option(help="In the name, note or id.")] = None,
    sort: Annotated[str, typer.Option(help="created_at, name, role, kind or last_used_at.")] = "created_at",
    descending: Annotated[bool, typer.Option("--descending", help="The other way round.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Most to show.")] = 200,
    output: Output = TABLE,
) -> None:
    """List who may enter; tokens are not shown."""
    asked = given_only(role=role, kind=kind, state=state, text=text)
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


@app.command("get")
def get_token(identity: IdentityArgument, output: Output = TABLE) -> None:
    """Show one identity: role, kind, last use, end; never the token itself."""
    with client() as http:
        show.thing(http.get(f"/tokens/{part(id_of(http, identity))}"), output)


@app.command("update")
def update_token(
    identity: IdentityArgument,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    role: Annotated[str | None, typer.Option(help="Another role, at once: viewer, operator or admin.")] = None,
    note: Annotated[str | None, typer.Option(help="Another note; empty takes it away.")] = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Keep out and end sessions, or let in again.")] = None,
    yes: Yes = False,
    output: Output = TABLE,
) -> None:
    """Rename, note, disable or enable, or give another role. Asks before it disables."""
    changes = given_only(name=name, role=role, note=note, disabled=disabled)
    if not changes:
        raise problems.Invalid(
            "token.nothing_to_change", "Nothing was named that should change.", hint="Give --name, --role, --note, --disable or --enable."
        )
    with client() as http:
        known = id_of(http, identity)
        if disabled:
            _agree(http, known, "its token opens nothing until token update --enable", yes)
        changed = http.call("PATCH", f"/tokens/{part(known)}", body=changes)
    show.done(f"{changed['name']} ({changed['role']}): {_state(changed)}.", changed, output)


@app.command("rotate")
def rotate_token(
    identity: IdentityArgument,
    expires_in_days: Annotated[int | None, typer.Option(help="Days until it ends; left out: as long as the old one was given.")] = None,
    never_expires: Annotated[bool, typer.Option("--never-expires", help="The new one does not end.")] = False,
    yes: Yes = False,
    output: Output = TABLE,
) -> None:
    """Make a new token in place of the old one, which ends at once; asks before. It is printed once and kept nowhere."""
    body = given_only(expires_in_days=expires_in_days, never_expires=never_expires or None)
    with client() as http:
        known = id_of(http, identity)
        _agree(http, known, "its present token opens nothing any more; a new one is shown once", yes)
        _show_once(http.call("POST", f"/tokens/{part(known)}:rotate", body=body), output)


@app.command("revoke")
def revoke_token(identity: IdentityArgument, yes: Yes = False, output: Output = TABLE) -> None:
    """End an identity, its token and its sessions at once and for good; asks before."""
    with client() as http:
        known = id_of(http, identity)
        _agree(http, known, "its token opens nothing any more, for good; operations it began go on", yes)
        ended = http.call("DELETE", f"/tokens/{part(known)}")
    show.done(f"{ended['name']}: revoked.", ended, output)


def _agree(http: Client, identity_id: str, effect: str, yes: bool) -> None:
    """Say whom it strikes and what stops working, and ask."""
    if yes:
        return
    who = http.get(f"/tokens/{part(identity_id)}")
    confirm(f"{who['name']} ({who['role']}, {who['kind']}): {effect}. {told_sessions(http, identity_id)}", yes)


def told_sessions(http: Client, identity_id: str) -> str:
    """How many open sessions of an identity end, in a sentence."""
    count = len(list(http.pages("/sessions", 200, identity=identity_id)))
    if not count:
        return "No session of it is open."
    return f"{counted(count, 'open session')} of it {plural(count, 'ends', 'end')} at once, with all that is being followed there."


def id_of(http: Client, named: str) -> str:
    """The id of an identity that is meant by its id or its name. Raises NotFound, and Invalid where a name is that of several."""
    if _ID.fullmatch(named):
        return named
    alike = [each for each in http.pages("/tokens", 1000, text=named) if each["name"] == named]
    living = [each for each in alike if not each["revoked_at"]] or alike
    if not living:
        raise problems.NotFound("identity.unknown", f"Nobody has the name or id {named}.", hint="instantstart token list")
    if len(living) > 1:
        told = ", ".join(f"{each['id']} ({each['role']}, {_state(each)})" for each in living[:10])
        raise problems.Invalid("identity.name_ambiguous", f"{named} is the name of several: {told}.", hint="Say the id.")
    return str(living[0]["id"])
