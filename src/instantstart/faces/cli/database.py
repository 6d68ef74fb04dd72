"""``instantstart database``: copies of the control plane's own records. Works on the data folder, not through the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Protocol

import typer

from instantstart.base import problems
from instantstart.faces.cli import files, show
from instantstart.faces.cli.agreeing import Yes, confirm
from instantstart.faces.cli.session import TABLE, Output

app = typer.Typer(
    help="Back up and restore InstantStart's own records (operations, users, history). Clusters live in AWS, not here.",
    no_args_is_help=True,
)
DataDir = Annotated[Path | None, typer.Option(help="Folder of the database; left out: INSTANTSTART_DATA_DIR or ~/.instantstart.")]


@app.command("backup")
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("instantstart-backup.tar.gz"),
    data_dir: DataDir = None,
    force: files.Force = False,
    output: Output = TABLE,
) -> None:
    """Copy the database into one file; the server may run meanwhile."""
    show.thing(_keeper(context).back_up(file, data_dir, force), output)


@app.command("restore")
def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `database backup` wrote.")],
    data_dir: DataDir = None,
    yes: Yes = False,
    output: Output = TABLE,
) -> None:
    """Put a backup in the place of the database; the old one is kept beside it. Stop the server first."""
    confirm(f"{file} takes the place of this machine's database: what happened since is then missing here. Tokens of then open again.", yes)
    show.thing(_keeper(context).restore(file, data_dir), output)


class Keeper(Protocol):
    """What the composition root does for these commands: this face may not know the store."""

    def back_up(self, file: Path, data_dir: Path | None, force: bool) -> dict[str, object]:
        """Write a backup; what it is."""

    def restore(self, file: Path, data_dir: Path | None) -> dict[str, object]:
        """Put one back; where the old files are kept."""


def _keeper(context: typer.Context) -> Keeper:
    keeper: Keeper | None = getattr(context.obj, "keeper", None)
    if keeper is None:
        raise problems.Invalid("database.no_launcher", "Start it with: python -m instantstart database ...")
    return keeper
