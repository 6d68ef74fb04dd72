"""A command as a person types or pastes it, taken apart as a POSIX shell would, and by no shell: argv, or every reason why not.

Quotes and JSON inside them stay as they are; lines end with a backslash or without. What only a shell could do (pipes, variables,
``&&``) is refused, because a server would get it as a word; what looks like a slip (typographic quotes) is shown with its place.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

#: quotes and dashes that word processors and web pages put in the place of the plain ones
_TYPOGRAPHIC = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "--", "\u00a0": " "}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_OPERATORS = frozenset("|&;<>`()")
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})")


@dataclass
class Parsed:
    """What a text means. ``wrong``: why it cannot be taken; ``doubts``: what a person should look at once."""

    argv: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Letter:
    """One character, where it stands, and in which quotes (empty: none)."""

    text: str
    at: int
    quote: str
    escaped: bool = False


def parse(text: str) -> Parsed:
    """Take a command apart. Pure; the same text gives the same argv for ever."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    found = Parsed()
    letters = list(_letters(plain, found))
    _look_for_slips(plain, letters, found)
    _look_for_shell(plain, letters, found)
    if found.wrong:
        return found
    found.argv = shlex.split(_joined(plain, letters), posix=True)
    _look_at_words(found)
    return found


def shown(argv: list[str]) -> str:
    """An argv as a line that gives the same argv again."""
    return shlex.join(argv)


def look(argv: list[str]) -> Parsed:
    """The same doubts about an argv that came as a list."""
    found = Parsed(argv=list(argv))
    _look_at_words(found)
    return found


def _letters(text: str, found: Parsed) -> Iterator[_Letter]:
    """Every character with the quotes around it. An unbalanced quote is told with the place where it opens."""
    quote, opened, at = "", 0, 0
    while at < len(text):
        letter = text[at]
        if letter == "\\" and quote != "'" and at + 1 < len(text):
            yield _Letter(text[at : at + 2], at, quote, escaped=True)
            at += 2
            continue
        if letter in "'\"" and quote in ("", letter):
            quote, opened = ("" if quote else letter), at
        yield _Letter(letter, at, quote)
        at += 1
    if quote:
        found.wrong.append(f"The quote {quote} {place(text, opened)} is never closed.")
    if text.endswith("\\") and (len(text) < 2 or text[-2] != "\\"):
        found.wrong.append("The command ends with a backslash: something is missing after it.")


def place(text: str, at: int) -> str:
    """``at line 2, column 7 (near ...)``."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    near = " ".join(text[max(at - 15, 0) : at + 15].split())
    return f"at line {line}, column {column} (near {near})"


def _joined(text: str, letters: list[_Letter]) -> str:
    """The text with continued lines joined, as a shell joins them: everywhere but in single quotes."""
    return "".join("" if each.text == "\\\n" and each.quote != "'" else each.text for each in letters)


def _look_for_slips(text: str, letters: list[_Letter], found: Parsed) -> None:
    for each in letters:
        if each.text in _TYPOGRAPHIC and not each.quote:
            better = _TYPOGRAPHIC[each.text]
            found.wrong.append(f"{each.text!r} {place(text, each.at)} is a typographic character: write {better} there.")
        if each.escaped and each.text in ("\\ ", "\\\t") and not each.quote and not text[each.at + 2 :].partition("\n")[0].strip():
            found.wrong.append(f"A blank follows the backslash {place(text, each.at)}: the line is not continued. Remove the blank.")
    bad = _CONTROL.search(text)
    if bad:
        found.wrong.append(f"A control character stands {place(text, bad.start())}.")


def _look_for_shell(text: str, letters: list[_Letter], found: Parsed) -> None:
    """What only a shell understands, outside quotes. ``$`` in double quotes is a shell's too."""
    for each in letters:
        if each.escaped or each.quote == "'" or (each.quote and each.text != "`"):
            continue
        if each.text in _OPERATORS and not _is_kubernetes_variable(text, each.at):
            found.wrong.append(
                f"{each.text} {place(text, each.at)} means something to a shell, and no shell runs this command. "
                "Put quotes around it if it is part of a value; ask for shell=true if a shell is wanted."
            )
            return
    for each in letters:
        if each.text == "#" and not each.quote and (each.at == 0 or text[each.at - 1].isspace()):
            found.wrong.append(f"A comment begins {place(text, each.at)}: leave it out, or put quotes around the #.")
            return


def _is_kubernetes_variable(text: str, at: int) -> bool:
    """``$(NAME)`` is Kubernetes' own way to name a variable of the container: it needs no shell."""
    opened = at if text[at] == "(" else text.rfind("(", 0, at)
    return text[at] in "()" and bool(re.match(r"\$\([A-Za-z_][A-Za-z0-9_]*\)", text[max(opened - 1, 0) :]))


def _look_at_words(found: Parsed) -> None:
    argv = found.argv
    if not argv:
        return
    if _ASSIGNMENT.match(argv[0]):
        name = argv[0].partition("=")[0]
        found.wrong.append(f"{name}=... before a command is set by a shell, and there is none: put {name} into env.")
    if argv[0] in ("$", "%", ">"):
        found.wrong.append(f"{argv[0]} at the beginning is the prompt of a terminal: leave it out.")
    if argv[0] in ("docker", "podman", "nerdctl", "sudo", "kubectl"):
        found.wrong.append(
            f"{argv[0]} runs on your machine, not in the container. Give the image as image, and what follows the image as the command."
        )
    for word in argv:
        if _VARIABLE.search(word):
            found.doubts.append(f"{word} stays as it is: no shell fills in its variable. Kubernetes fills in $(NAME) of env.")
        elif re.search(r"\$\([A-Za-z_][A-Za-z0-9_]*\)", word):
            found.doubts.append(
                f"{word}: Kubernetes fills in the variable when the container has it, and leaves the word as it is otherwise."
            )
        elif re.fullmatch(r"\{\s*[A-Za-z_]\w*\s*:.*\}", word, re.DOTALL):
            found.doubts.append(f"{word} looks like JSON that lost its quotes: put single quotes around the whole value.")
        if any(letter in _TYPOGRAPHIC for letter in word):
            found.doubts.append(f"{word} has typographic characters inside quotes: they are kept.")
