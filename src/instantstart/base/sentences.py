"""Pydantic's findings as sentences for a person, and its locations as JSON pointers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from instantstart.base import moments, patterns
from instantstart.base.problems import Violation

Error = Mapping[str, Any]


#: kinds of errors whose text is a sentence already
_WHOLE = frozenset({"label"})
#: pydantic's mark that the key of a map is meant, not its value: a pointer names both alike
_KEY = "[key]"


#: no field of ours lies deeper: what does is somebody's own structure, gone too deep
_DEEPEST = 12
_LONGEST = 250


def location(error: Error, body: Any = None) -> list[Any]:
    """Where it is in ``body`` as it was sent: without the names that pydantic gives to the branches of a union."""
    loc = list(error["loc"])
    if not loc or loc[0] != "body":
        return loc
    found, here = ["body"], body
    for index, part in enumerate(loc[1:], start=1):
        branch = isinstance(part, str) and part != _KEY and index < len(loc) - 1
        if branch and ((isinstance(here, Mapping) and part not in here) or isinstance(here, list)):
            continue
        found.append(part)
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            here = None
    return found[: _DEEPEST + 1]


def pointer(location: Sequence[Any]) -> str:
    """The JSON pointer of ``location``: into the body as it was sent; ``/query/x``, ``/path/x``, ``/header/x`` elsewhere."""
    parts = [part for part in location if part != _KEY]
    if parts and parts[0] == "body":
        parts = parts[1:]
    return "".join("/" + str(each)[:_LONGEST].replace("~", "~0").replace("/", "~1") for each in parts)


def violations(errors: Sequence[Error], body: Any = None) -> list[Violation]:
    """What the library found, one for each place in ``body``."""
    found: dict[str, Violation] = {}
    for error in errors:
        error = {**error, "loc": location(error, body)}
        where = pointer(error["loc"])
        found.setdefault(where, Violation(where, sentence(error)))
    return list(found.values())


def sentence(error: Error) -> str:
    """What is wrong with one field. Never repeats what was sent: it may be a secret."""
    if error["type"] in _WHOLE:
        return str(error["msg"])
    location = [p for p in error["loc"] if p != _KEY]
    if location and location[0] in ("body", "query", "path", "header"):
        location = location[1:]
    subject = ".".join(str(p)[:_LONGEST] if p != "" else '""' for p in location) or "The body"
    say = _SAYINGS.get(str(error["type"]))
    told = say(error.get("ctx") or {}) if say else _plain(error)
    return f"{subject} {told}."


def _plain(error: Error) -> str:
    text = str(error.get("msg", "is wrong")).strip().rstrip(".")
    if error["type"] in ("value_error", "assertion_error"):
        return text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    found = _SHOULD.match(text)
    return f"must {text[found.end() :]}" if found else "is wrong: " + text[:1].lower() + text[1:]


#: how the library begins the sentences that have no words of ours
_SHOULD = re.compile(r"(?:Input|Value|Data|\w+ input) should (?=be |have |match |not )")


def _say(text: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda context: text.format_map(context)


def _least(context: Mapping[str, Any], what: str) -> str:
    return f"must have at least {context['min_length']} {what}"


_SAYINGS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": _say("is required"),
    "extra_forbidden": _say("is not a field of this request"),
    "string_type": _say("must be text"),
    "string_unicode": _say("must be text that can be written as UTF-8"),
    "string_too_short": lambda context: "must not be empty" if context["min_length"] == 1 else _least(context, "characters"),
    "string_too_long": _say("must have at most {max_length} characters"),
    "string_pattern_mismatch": lambda context: f"must {patterns.WORDS.get(context['pattern'], 'have another form')}",
    "int_type": _say("must be a whole number"),
    "int_parsing": _say("must be a whole number"),
    "int_from_float": _say("must be a whole number"),
    "float_type": _say("must be a number"),
    "float_parsing": _say("must be a number"),
    "finite_number": _say("must be a finite number"),
    "bool_type": _say("must be true or false"),
    "bool_parsing": _say("must be true or false"),
    "greater_than": _say("must be more than {gt}"),
    "greater_than_equal": _say("must be at least {ge}"),
    "less_than": _say("must be less than {lt}"),
    "less_than_equal": _say("must be at most {le}"),
    "enum": _say("must be one of {expected}"),
    "literal_error": _say("must be one of {expected}"),
    "list_type": _say("must be a list"),
    "tuple_type": _say("must be a list"),
    "dict_type": _say("must be an object"),
    "model_type": _say("must be an object"),
    "model_attributes_type": _say("must be a JSON object"),
    "too_short": lambda context: "must not be empty" if context["min_length"] == 1 else _least(context, "items"),
    "too_long": _say("must have at most {max_length} items"),
    "none_required": _say("must be empty"),
    "union_tag_not_found": lambda context: f"needs {str(context['discriminator']).strip(chr(39))}, which says what the rest is",
    "union_tag_invalid": lambda context: f"must have as {str(context['discriminator']).strip(chr(39))} one of {context['expected_tags']}",
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing", "datetime_object_invalid"),
        _say(f"must be a moment with its time zone, such as {moments.EXAMPLE}"),
    ),
    "timezone_aware": _say(f"must say its time zone, as {moments.EXAMPLE} does with Z for UTC"),
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing"), _say("must be a date, such as 2026-11-30")),
    **dict.fromkeys(("time_type", "time_parsing"), _say("must be a time of the day, such as 03:30")),
    **dict.fromkeys(("time_delta_type", "time_delta_parsing"), _say("must be a duration in seconds")),
    **dict.fromkeys(("url_type", "url_parsing", "url_syntax_violation"), _say("must be an address, such as https://example.com")),
    "url_scheme": _say("must be an address that begins with {expected_schemes}"),
    "url_too_long": _say("must have at most {max_length} characters"),
    "multiple_of": _say("must be a multiple of {multiple_of}"),
    "int_parsing_size": _say("is too large a number"),
    **dict.fromkeys(("decimal_type", "decimal_parsing"), _say("must be a number")),
    "decimal_max_digits": _say("must have at most {max_digits} digits"),
    "decimal_max_places": _say("must have at most {decimal_places} digits after the point"),
    **dict.fromkeys(("set_type", "frozen_set_type", "iterable_type"), _say("must be a list")),
    "mapping_type": _say("must be an object"),
    **dict.fromkeys(("uuid_type", "uuid_parsing"), _say("must be a UUID, such as 123e4567-e89b-42d3-a456-426614174000")),
    "path_type": _say("must be a path"),
    "recursion_depth_exceeded": _say("goes too deep"),
}
