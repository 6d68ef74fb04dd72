"""The one way of asking a person: what destroys or disturbs is begun after its plan was shown and agreed to."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import show
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.session import TABLE
from instantstart.faces.cli.steps import How, begin, show_plan

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; the plan is still shown.")]


def begin_agreed(
    http: Client, call: tuple[str, str], how: How, yes: bool, body: Mapping[str, Any] | None = None, typed: str | None = None
) -> None:
    """Show the plan of a request, ask, and begin it with the plan's approval. A dry run ends with the plan.

    A change whose plan needs no approval is not asked about. ``typed``: a name that must be typed, for what is lost with it.
    """
    method, path = call
    if how.dry_run:
        begin(http, method, path, how, body)
        return
    plan = http.call(method, path, body=body, query={**how.query, "dry_run": True})
    if method == "DELETE" or plan.get("approval"):
        agree(plan, yes, typed)
    begin(http, method, path, How(how.wait, how.output, query={**how.query, "approval": plan.get("approval")}), body)


def begin_costly(http: Client, path: str, how: How, yes: bool, body: Mapping[str, Any] | None = None) -> None:
    """POST what is paid for by the hour: a person's at once; an agent's after its plan was shown and agreed to, with its approval."""
    try:
        begin(http, "POST", path, how, body)
    except problems.Conflict as problem:
        if problem.code != "approval.missing":
            raise
        begin_agreed(http, ("POST", path), how, yes, body)


def agree(plan: Mapping[str, Any], yes: bool, typed: str | None = None) -> None:
    """Show a plan and ask whether to go on. Raises Invalid when it is not agreed to, or nobody is there to answer."""
    show_plan(plan, TABLE, note=True)
    ask("Go on?", yes, typed)


def confirm(effect: str, yes: bool, typed: str | None = None) -> None:
    """For what has no plan: say what stops working or is lost, and ask. Raises as ``ask``."""
    if yes:
        return
    show.note(effect)
    ask("Go on?", yes, typed, hint="Add --yes to agree to it beforehand.")


def ask(question: str, yes: bool, typed: str | None = None, hint: str = "Look at --dry-run, then add --yes.") -> None:
    """Ask a person. Raises Invalid ``plan.not_confirmed`` when the answer is no, or nobody is there and no ``--yes``."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise problems.Invalid("plan.not_confirmed", "Nobody is there to agree to this; nothing was changed.", hint=hint)
    if typed is None and not typer.confirm(question, err=True):
        raise problems.Invalid("plan.not_confirmed", "Not agreed to; nothing was changed.")
    if typed is not None and typer.prompt(f"Type {typed} to go on", err=True) != typed:
        raise problems.Invalid("plan.not_confirmed", f"That is not {typed}; nothing was changed.")
