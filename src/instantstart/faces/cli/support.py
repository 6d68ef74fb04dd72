"""``instantstart support``: what to send to somebody who helps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from instantstart.faces.cli import files, show
from instantstart.faces.cli.session import TABLE, Output, client

app = typer.Typer(help="What to send to somebody who helps.", no_args_is_help=True)


@app.command("bundle")
def bundle(
    file: Annotated[Path, typer.Argument(help="The archive to write.")] = Path("instantstart-support.zip"),
    force: files.Force = False,
    output: Output = TABLE,
) -> None:
    """Write versions, settings, operations, events and figures into one archive, without secrets (administrators)."""
    with client() as http:
        size = files.write(file, http.download("/support-bundle", {}), force)
    text = f"Wrote {file} ({size:,} bytes). It holds no tokens or passwords; it does hold names: read it before you pass it on."
    show.done(text, {"file": str(file), "bytes": size}, output)
