"""Options that are moments or durations, understood the same in every command; the server gets what it takes: ISO, or seconds."""

from __future__ import annotations

import datetime as dt

import typer

from instantstart.base import moments


def moment(text: str) -> str:
    """An ISO moment with its zone; a date or a word is meant in this machine's zone."""
    try:
        return moments.read(text, dt.datetime.now().astimezone()).isoformat()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def seconds(text: str) -> int:
    """A number of seconds, from ``90``, ``10m`` or ``1h30m``."""
    try:
        return moments.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
