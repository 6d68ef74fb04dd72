"""Addresses made of what a person typed: each name is one part of the path, whatever characters it has."""

from __future__ import annotations

from urllib.parse import quote

from instantstart.base import problems


def part(name: str, noun: str = "name") -> str:
    """A name as one part of an address. Raises Invalid for what would be another address."""
    if name in ("", ".", ".."):
        raise problems.Invalid("name.invalid", f"{name!r} is no {noun}.")
    return quote(name, safe="")


def joined(*names: str) -> str:
    """Names as the parts of an address, each after a slash."""
    return "".join(f"/{part(name)}" for name in names)
