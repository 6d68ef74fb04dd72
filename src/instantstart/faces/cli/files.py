"""Files that options name: read and written, with every failure a Problem that says what is wrong with which file."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import contexts

STANDARD_INPUT = Path("-")
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file when it is there already.")]
_REASONS = {
    errno.ENOENT: "There is no file {}.",
    errno.EISDIR: "{} is a folder, not a file.",
    errno.EACCES: "You may not open {}.",
    errno.ENOTDIR: "Something on the way to {} is no folder.",
    errno.ENOSPC: "The disk is full: {} was not written whole.",
    errno.ENAMETOOLONG: "{} is too long for the name of a file.",
}


def text_of(path: Path) -> str:
    """The text of a file; ``-`` is standard input. Raises Invalid ``file.unreadable``."""
    try:
        return sys.stdin.read() if path == STANDARD_INPUT else path.read_text(encoding="utf-8")
    except OSError as error:
        raise problems.Invalid("file.unreadable", _reason(path, error, "read"), hint="Check the path.") from error
    except ValueError as error:  # not UTF-8, or a NUL in the path
        raise problems.Invalid("file.unreadable", f"{path} is no text in UTF-8.") from error


def log_of(path: Path) -> str:
    """The same for text that may be torn: what is no UTF-8 is replaced."""
    try:
        return sys.stdin.read() if path == STANDARD_INPUT else path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise problems.Invalid("file.unreadable", _reason(path, error, "read"), hint="Check the path.") from error


def fields_of(path: Path) -> dict[str, Any]:
    """The fields of a YAML or JSON file. Raises Invalid ``file.unreadable``, ``file.malformed``."""
    import yaml  # seldom wanted, slow to load

    text = text_of(path)
    try:
        told = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise problems.Invalid("file.malformed", f"{path} is neither YAML nor JSON: it goes wrong{at}.") from error
    if not isinstance(told, dict):
        raise problems.Invalid("file.malformed", f"{path} must hold the fields of the request, each as name: value.")
    return told


def json_of(path: Path) -> Any:
    """The JSON of a file. Raises as ``fields_of``."""
    text = text_of(path)
    try:
        return json.loads(text)
    except ValueError as error:
        at = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise problems.Invalid("file.malformed", f"{path} is no JSON: it goes wrong{at}.") from error


def write(path: Path, pieces: Iterable[bytes], force: bool = False) -> int:
    """Write pieces into a file for this user only, whole or not at all, and count the bytes. A device or pipe is written as it comes.

    Raises Conflict ``file.exists`` without ``force``, before a piece is asked for; Invalid ``file.unwritable``.
    """
    try:
        if path.is_file() and not force:
            raise problems.Conflict("file.exists", f"{path} is there already.", hint="Choose another name, or overwrite it with --force.")
        if not path.exists() or path.is_file():
            return contexts.write_private_bytes(path, pieces)
        with path.open("wb") as out:
            return sum(out.write(piece) for piece in pieces)
    except (OSError, ValueError) as error:
        raise problems.Invalid("file.unwritable", _reason(path, error, "written"), hint="Choose another file.") from error


def _reason(path: Path, error: OSError | ValueError, done: str) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if done == "written" and number == errno.ENOENT:
        return f"There is no folder {path.parent}."
    return _REASONS.get(number or 0, f"{{}} cannot be {done}.").format(path)
