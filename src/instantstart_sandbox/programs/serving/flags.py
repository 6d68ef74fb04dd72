"""Tables of command-line flags, and a parser made of them that refuses what the real program refuses, in argparse's words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any


def words(text: str) -> tuple[str, ...]:
    """The words of a table."""
    return tuple(text.split())


def as_json(text: str) -> Any:
    """A value of JSON, as the flag wants it."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to JSON: {error}") from error


def json_or_counts(text: str) -> Any:
    """JSON, or ``image=2,video=1`` as older versions take it."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if all(name and mark and count.isdigit() for name, mark, count in pairs):
        return {name: int(count) for name, _, count in pairs}
    return as_json(text)


def human_int(text: str) -> int:
    """An integer that may end in k, M or G (thousands), or K (1024s)."""
    scale = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
    if text and text[-1] in scale:
        return int(float(text[:-1]) * scale[text[-1]])
    return int(text)


class Flags:
    """Fills a parser from tables: each name becomes ``--name``; a value that cannot be read is an error with the flag's name."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser

    def _add(self, names: Iterable[str], **fields: Any) -> None:
        for name in names:
            flags = [f"--{n}" if len(n) > 1 else f"-{n}" for n in name.split("|")]
            self.parser.add_argument(*flags, **fields)

    def switches(self, table: str) -> None:
        """Flags without a value."""
        self._add(words(table), action="store_true", default=None)

    def pairs(self, table: str) -> None:
        """Flags without a value that also have a ``--no-`` form."""
        self._add(words(table), action=argparse.BooleanOptionalAction, default=None)

    def texts(self, table: str) -> None:
        """Flags with one word."""
        self._add(words(table))

    def many(self, table: str) -> None:
        """Flags with one word or more."""
        self._add(words(table), nargs="+")

    def numbers(self, table: str, kind: Any = int) -> None:
        """Flags with a number."""
        self._add(words(table), type=kind)

    def documents(self, table: str) -> None:
        """Flags with JSON."""
        self._add(words(table), type=as_json)

    def choices(self, table: dict[str, str]) -> None:
        """Flags with one of a few words."""
        for name, allowed in table.items():
            self._add((name,), choices=list(words(allowed)))
