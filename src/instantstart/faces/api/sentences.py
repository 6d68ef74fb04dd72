"""Pydantic's findings as sentences for a person, and its locations as JSON pointers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from instantstart.base import patterns

Error = Mapping[str, Any]


#: kinds of errors whose text is a sentence already
_WHOLE = frozenset({"label"})
#: pydantic's mark that the key of a map is meant, not its value: a pointer names both alike
_KEY = "[key]"


def pointer(location: Sequence[Any]) -> str:
    """The JSON pointer of ``location``: into the body as it was sent; ``/query/x``, ``/path/x``, ``/header/x`` elsewhere."""
    parts = [part for part in location if part != _KEY]
    if parts and parts[0] == "body":
        parts = parts[1:]
    return "".join("/" + str(each).replace("~", "~0").replace("/", "~1") for each in parts)


def sentence(error: Error) -> str:
    """What is wrong with one field. Never repeats what was sent: it may be a secret."""
    if error["type"] in _WHOLE:
        return str(error["msg"])
    location = [p for p in error["loc"] if p not in ("body", "query", "path", "header", _KEY)]
    subject = ".".join(str(p) for p in location) or "The body"
    say = _SAYINGS.get(str(error["type"]))
    told = say(error.get("ctx") or {}) if say else _plain(error)
    return f"{subject} {told}."


def _plain(error: Error) -> str:
    text = str(error.get("msg", "is wrong")).strip().rstrip(".")
    if error["type"] in ("value_error", "assertion_error"):
        return text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return "is wrong: " + text[:1].lower() + text[1:]


def _say(text: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda context: text.format_map(context)


_SAYINGS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": _say("is required"),
    "extra_forbidden": _say("is not a field of this request"),
    "string_type": _say("must be text"),
    "string_too_short": _say("must have at least {min_length} characters"),
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
    "too_short": _say("must have at least {min_length} items"),
    "too_long": _say("must have at most {max_length} items"),
    "none_required": _say("must be empty"),
}
