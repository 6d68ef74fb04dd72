"""``instantstart support``: what to send to somebody who helps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from instantstart.base import problems
from instantstart.faces.cli import show
from instantstart.faces.cli.contexts import write_private_bytes
from instantstart.faces.cli.session import client

app = typer.Typer(help="What to send to somebody who helps.", no_args_is_help=True)


@app.command("bundle")
def bundle(
    file: Annotated[Path, typer.Argument(help="The archive to write.")] = Path("instantstart-support.zip"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write versions, settings, operations, events and figures into one archive, without secrets (administrators)."""
    if file.exists() and not force:
        raise problems.Conflict("support.exists", f"{file} is there already.", hint="Choose another name, or overwrite it with --force.")
    with client() as http:
        try:
            size = write_private_bytes(file, http.download("/support-bundle", {}))
        except OSError as error:
            raise problems.Invalid("support.file", f"{file} cannot be written: {error.strerror}.") from error
    show.note(f"Wrote {file} ({size:,} bytes). It holds no tokens or passwords; it does hold names: read it before you pass it on.")
