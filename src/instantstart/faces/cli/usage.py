"""A command line that cannot be understood, in our own words: which option or argument, what it takes, where the help is."""

from __future__ import annotations

import re
from typing import Any

import typer

from instantstart.base import problems

#: what typer raises for a wrong command line, wherever this version of it keeps the class
Wrong: type[Exception] = next(each for each in typer.BadParameter.__mro__ if each.__name__ == "UsageError")
_SENTENCES = (
    (r"valid integer", "{} takes a whole number."),
    (r"valid number", "{} takes a number."),
    (r"valid boolean", "{} takes true or false."),
    (r"less than or equal to (\S+)", "{} is {} at most."),
    (r"greater than or equal to (\S+)", "{} is {} at least."),
    (r"is not one of (.+?)\.?$", "{} is one of: {}."),
    (r"requires an argument", "{} needs a value."),
)


def refusal(error: Any) -> problems.Problem:
    """The Problem of a wrong command line."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "instantstart"
    said, name = str(error.message).strip(), _named(error)
    told = _sentence(type(error).__name__, said, name)
    return problems.Invalid("usage.wrong", told, hint=f"See: {path} --help")


def _named(error: Any) -> str:
    """The option as it is written, or the argument as the help calls it."""
    param = getattr(error, "param", None)
    if param is None:
        return str(getattr(error, "option_name", None) or "")
    long = [opt for opt in param.opts if opt.startswith("-")]
    return str(max(long, key=len)) if long else str(param.name).upper()


def _sentence(kind: str, said: str, name: str) -> str:
    if kind == "MissingParameter":
        return f"{name} is missing."
    if kind == "NoSuchOption":
        return f"There is no option {name}."
    if not name:
        return said if said.endswith((".", "?")) else f"{said}."
    for pattern, sentence in _SENTENCES:
        found = re.search(pattern, said)
        if found:
            return sentence.format(name, *(text.replace("'", "") for text in found.groups()))
    return f"{name}: {said if said.endswith('.') else said + '.'}"
