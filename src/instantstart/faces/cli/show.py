"""How answers look: tables for people, JSON and YAML for programs, problems in colour on standard error."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from instantstart.base import problems

Row = Mapping[str, Any]
#: header -> key of the row, or a function of the row
Columns = Mapping[str, str | Callable[[Row], Any]]


class Format(StrEnum):
    """How to print an answer."""

    table = "table"
    json = "json"
    yaml = "yaml"


#: status word -> style
STYLES = {
    "succeeded": "green", "done": "green", "ready": "green", "running": "cyan", "waiting": "cyan", "queued": "blue",
    "pending": "bright_black", "skipped": "bright_black", "failed": "red", "blocked": "yellow", "awaiting_approval": "yellow",
    "cancelled": "bright_black",
}  # fmt: skip


#: columns that are copied by hand or cut by other programs: never folded while another column can be
_KEPT_WHOLE = frozenset({"ID", "TAG", "NAME", "TYPE", "OPERATION", "INSTANCE", "STATUS", "STATE", "CLUSTER"})
_PIPE_WIDTH = 2000


def out() -> Console:
    """Standard output; made anew so that redirected streams are seen. Nothing is folded where no terminal is."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def err() -> Console:
    """Standard error: progress, notes and problems, so that standard output stays parseable."""
    return Console(file=sys.stderr, highlight=False, width=None if sys.stderr.isatty() else _PIPE_WIDTH)


def data(value: Any, form: Format) -> None:
    """Print ``value`` as JSON or YAML."""
    if form is Format.yaml:
        import yaml  # takes a while to load and is seldom wanted

        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False)
        if text != _printable(text):  # the same value, with what could move a terminal's cursor or turn its words written as escapes
            text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, default_flow_style=False)
    else:
        text = as_json(value)
    sys.stdout.write(text)


def as_json(value: Any) -> str:
    """``value`` as JSON whose texts are printable: control and direction characters are escapes, letters of all scripts stay."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text) + "\n"


def rows(items: Sequence[Row], columns: Columns, form: Format, empty: str = "Nothing to show.") -> None:
    """Print a list: a table, or the whole items as data."""
    if form is not Format.table:
        data(list(items), form)
        return
    if not items:
        err().print(Text(empty))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in columns:
        table.add_column(header, overflow="fold", no_wrap=header in _KEPT_WHOLE)
    for item in items:
        table.add_row(*(cell(pick(item) if callable(pick) else item.get(pick)) for pick in columns.values()))
    out().print(table)


def page(told: Row, columns: Columns, form: Format, empty: str = "Nothing to show.") -> None:
    """Print one page of a list: a table of its ``items`` and how to get the next page, or the whole as data."""
    if form is not Format.table:
        data(told, form)
        return
    rows(told["items"], columns, form, empty)
    if told.get("cursor"):
        note(f"There is more: --cursor {told['cursor']}")


def thing(value: Row, form: Format, keys: Sequence[str] | None = None) -> None:
    """Print one object: its fields below each other, or the whole as data."""
    if form is not Format.table:
        data(value, form)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key in keys or list(value):
        table.add_row(Text(key.replace("_", " ")), cell(value.get(key)))
    out().print(table)


def cell(value: Any) -> Text:
    """One value as text that no markup or control character can break."""
    if value is None or value == "" or value in ([], {}):
        return Text("-", style="bright_black")
    text = _printable(_worded(value))
    return Text(text, style=STYLES.get(text, ""))


def _worded(value: Any) -> str:
    """A nested value in words: fields after each other, the items of a list on lines of their own when they have fields."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        kept = ((key.replace("_", " "), _worded(inner)) for key, inner in value.items() if inner not in (None, "", [], {}))
        return ", ".join(f"{key}: {inner}" if "\n" not in inner else f"{key}:\n{inner}" for key, inner in kept)
    if isinstance(value, list):
        return ("\n" if any(isinstance(each, Mapping) for each in value) else ", ").join(_worded(each) for each in value)
    return str(value)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def duration(seconds: float | None) -> str:
    """``75`` -> ``1m15s``."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{left:02}s" if minutes else f"{left}s"


def moment(value: str | None) -> str:
    """An ISO moment in local time, to the second."""
    return dt.datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M:%S") if value else "-"


def is_past(value: str) -> bool:
    """Whether an ISO moment is over by this machine's clock."""
    return dt.datetime.fromisoformat(value) <= dt.datetime.now(dt.UTC)


def note(text: str) -> None:
    """Say something that is not the answer. Its lines are not broken: they may be commands."""
    err().print(Text(_printable(text)), soft_wrap=True)


def done(text: str, value: Row, form: Format) -> None:
    """Say what was done: a sentence for a person, the fact itself for a program."""
    if form is Format.table:
        note(text)
    else:
        data(value, form)


def problem(told: problems.Problem | Mapping[str, Any], form: Format = Format.table) -> None:
    """Print a problem: what, why, each wrong field, what to do. With ``-o json|yaml`` the document itself."""
    document = told.document() if isinstance(told, problems.Problem) else dict(told)
    if form is not Format.table:
        err().file.write(as_json(document))
        return
    console = err()
    told_so, fields = _once(document)
    console.print(Text.assemble(("Error: ", "bold red"), _printable(told_so)))
    for pointer, message in fields:
        console.print(Text.assemble("  ", (_printable(pointer), "yellow"), "  ", _printable(message)))
    if document.get("hint") and document["hint"] not in (told_so, *(message for _, message in fields)):
        console.print(Text.assemble(("Hint: ", "bold"), _printable(str(document["hint"]))))
    for name, value in (document.get("evidence") or {}).items():
        console.print(Text(f"  {name}: {_printable(str(value))[:500]}", style="bright_black"))
    console.print(Text(f"  code: {document.get('code')}", style="bright_black"))


def _once(document: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """What is wrong, and the fields with what is wrong of each: no sentence twice."""
    detail = str(document.get("detail") or document.get("title"))
    fields = [(str(each["pointer"]), str(each["message"])) for each in document.get("fields", ())]
    repeated = [message for _, message in fields if message.rstrip(".") in detail]
    if not repeated:
        return detail, fields
    if len(fields) == 1:
        pointer = fields[0][0]
        return detail, [] if pointer.rpartition("/")[2] in detail else [(pointer, "")]
    return f"{str(document.get('title') or 'The request is not valid').rstrip('.')}:", fields
