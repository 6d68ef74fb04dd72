"""Foreign text made harmless for a terminal, a page or a model: what a program wrote may not move the cursor, set titles or hide itself."""

from __future__ import annotations

import re

#: escape sequences of any kind, ended or not: operating system commands and other strings, control sequences, single ones; both spellings
_ESCAPE = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}m")
_RESET = "\x1b[0m"


def shown(text: str, *, colours: bool = False) -> str:
    """One line as a terminal would show it in the end, in printable characters. ``colours``: those, and nothing else, are kept."""
    if text.isascii() and text.isprintable():
        return text
    line = overwritten(text)
    told, at, coloured = [], 0, False
    for escape in _ESCAPE.finditer(line):
        told.append(_printable(line[at : escape.start()]))
        if colours and _COLOUR.fullmatch(escape[0]):
            told.append(escape[0])
            coloured = True
        at = escape.end()
    told.append(_printable(line[at:]))
    return "".join(told) + (_RESET if coloured else "")


def overwritten(text: str) -> str:
    """What carriage returns and backspaces leave of a line: the last state of a progress bar."""
    if "\b" in text:
        text = _erased(text)
    if "\r" not in text:
        return text
    parts = [part for part in text.split("\r") if part]
    line = parts[0] if parts else ""
    for part in parts[1:]:
        plain = "\x1b" not in part and "\x1b" not in line
        line = part + line[len(part) :] if plain else part
    return line


def _erased(text: str) -> str:
    told: list[str] = []
    for character in text:
        if character != "\b":
            told.append(character)
        elif told and told[-1] not in "\r\x1b":
            told.pop()
    return "".join(told)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
