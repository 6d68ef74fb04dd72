"""What destroys is begun after its plan was shown and agreed to."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.session import TABLE
from instantstart.faces.cli.steps import How, begin, show_plan

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; the plan is still shown.")]


def begin_agreed(http: Client, call: tuple[str, str], how: How, yes: bool, body: Mapping[str, Any] | None = None) -> None:
    """Show the plan of a request, ask, and begin it with the plan's approval. A dry run ends with the plan."""
    method, path = call
    if how.dry_run:
        begin(http, method, path, how, body)
        return
    plan = http.call(method, path, body=body, query={**how.query, "dry_run": True})
    agree(plan, yes)
    begin(http, method, path, How(how.wait, how.output, query={**how.query, "approval": plan.get("approval")}), body)


def agree(plan: Mapping[str, Any], yes: bool) -> None:
    """Show a plan and ask whether to go on. Raises Invalid when nobody is there to answer, and no ``--yes``."""
    show_plan(plan, TABLE, note=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise problems.Invalid("plan.not_confirmed", "Nobody is there to agree to the plan.", hint="Look at --dry-run, then add --yes.")
    typer.confirm("Go on?", abort=True, err=True)
