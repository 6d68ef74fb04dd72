"""CEL, the language of ``x-kubernetes-validations``, by Google's own runtime (PyPI ``cel-expr-python``), with Kubernetes' functions.

``unevaluated`` says which parts of a rule this runtime does not know (a function of Kubernetes' libraries, comprehensions of two
variables): a definition that uses them is taken with a warning and the rule is not enforced, rather than enforced wrongly.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import re
from collections.abc import Callable
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from instantstart_sandbox.kubernetes.schema import ANYTHING, Node

#: words that no identifier of CEL may be; a field that is called so is written ``__word__`` (apiserver/pkg/cel/escaping.go)
_RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"}
    | {"namespace", "return", "var", "void", "while"}
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_DYN: Final = cel.Type.DYN
_SCALARS: Final = {
    "string": cel.Type.STRING, "integer": cel.Type.INT, "number": cel.Type.DOUBLE, "boolean": cel.Type.BOOL,
}  # fmt: skip
#: Kubernetes' functions that are not offered here
_ABSENT: Final = frozenset(
    {"url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery", "ip", "isIP", "family"}
    | {"isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "isCanonical", "cidr"}
    | {"isCIDR", "containsIP", "containsCIDR", "prefixLength", "masked", "quantity", "isQuantity", "sign", "isInteger"}
    | {"asInteger", "asApproximateFloat", "compareTo", "isGreaterThan", "isLessThan", "semver", "isSemver", "transformList"}
    | {"transformMap", "transformMapEntry", "bind", "contains", "intersects", "equivalent", "named", "validate"}
)
_UNKNOWN: Final = re.compile(r"undeclared reference to '([\w.]+)'")
_TEXTS: Final = (
    (re.compile(r'Key not found in map : "(.*)"'), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"No matching overloads found.*"), "no such overload"),
)


class RuleError(Exception):
    """A rule that does not compile or cannot be evaluated; the sentence is Kubernetes' one."""


class UnevaluatedError(Exception):
    """The rule uses what this runtime does not know."""


def _found(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


def _all_found(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [m[0] for m in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _function(name: str, result: Any, parameters: list[Any], implementation: Callable[..., Any], *more: list[Any]) -> Any:
    overloads = [
        cel.Overload(f"kubernetes_{name}_{number}", result, takes, True, implementation) for number, takes in enumerate([parameters, *more])
    ]
    return cel.FunctionDecl(name, overloads)


def _library() -> Any:
    """Kubernetes' libraries of lists and regular expressions, as far as Python gives them."""
    text, number, many = cel.Type.STRING, cel.Type.INT, cel.Type.List(_DYN)
    functions = [
        _function("find", text, [text, text], _found),
        _function("findAll", cel.Type.List(text), [text, text], _all_found, [text, text, number]),
        _function("isSorted", cel.Type.BOOL, [many], lambda items: all(a <= b for a, b in itertools.pairwise(items))),
        _function("sum", _DYN, [many], sum),
        _function("min", _DYN, [many], min),
        _function("max", _DYN, [many], max),
    ]
    return cel.CelExtension("kubernetes", functions)


def cel_type(node: Node) -> Any:
    """The type that an expression gives a value of a schema; objects with fields are maps whose values may be anything."""
    if node.nullable:
        return _DYN
    if node.type == "string":
        formats = {"date": cel.Type.TIMESTAMP, "date-time": cel.Type.TIMESTAMP, "duration": cel.Type.DURATION, "byte": cel.Type.BYTES}
        return formats.get(node.raw.get("format", ""), cel.Type.STRING)
    if node.type == "array":
        return cel.Type.List(cel_type(node.items)) if not _timed(node.items) else cel.Type.List(_DYN)
    if node.type == "object":
        values = node.additional
        return cel.Type.Map(cel.Type.STRING, cel_type(values) if values and not node.structure and not _timed(values) else _DYN)
    return _SCALARS.get(node.type, _DYN)


def _timed(node: Node) -> bool:
    """Whether values of a schema are times, which the runtime takes only by themselves and not inside of something."""
    return node.type == "string" and node.raw.get("format") in ("date", "date-time", "duration")


def cel_value(value: Any, node: Node, *, inside: bool = False) -> Any:
    """A value as expressions see it: numbers by the schema's type, fields by their escaped names, times as times."""
    if isinstance(value, dict):
        named = node.fields
        return {
            escape(key) if key in named else key: cel_value(item, node.child(key) or ANYTHING, inside=True) for key, item in value.items()
        }
    if isinstance(value, list):
        return [cel_value(item, node.items, inside=True) for item in value]
    if node.type == "number" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if node.type == "integer" and isinstance(value, float):
        return int(value)
    return value if inside or not isinstance(value, str) else _scalar(value, node.raw.get("format", ""))


def _scalar(text: str, form: str) -> Any:
    try:
        if form in ("date", "date-time"):
            moment = dt.datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        if form == "duration":
            units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
            return dt.timedelta(seconds=sum(float(n) * units[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)(h|ms|us|ns|m|s)", text)))
    except ValueError:
        return text
    return text.encode() if form == "byte" else text


def escape(name: str) -> str:
    """A field's name as an identifier of CEL."""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name)


def uses_old(rule: str) -> bool:
    """Whether a rule compares with the value before."""
    return re.search(r"\boldSelf\b", rule) is not None


_environments: Final[dict[str, Any]] = {}


def _environment(own: Any, fields: dict[str, Any]) -> Any:
    """An environment for values of a type; ``fields`` are names such as ``self.spec`` whose types are known, too."""
    key = f"{own.name()} {sorted((name, kind.name()) for name, kind in fields.items())}"
    if key not in _environments:
        variables = {"self": own, "oldSelf": own, "oldSelves": cel.Type.List(_DYN), **fields}
        extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings(), _library()]
        _environments[key] = cel.NewEnv(variables=variables, extensions=extensions)
    return _environments[key]


def _fields(node: Node, path: str, depth: int = 4) -> dict[str, Any]:
    """The types of the declared fields below a value, by the names that a rule gives them."""
    found: dict[str, Any] = {}
    for name in node.fields if node.structure and depth else ():
        child = node.child(name) or ANYTHING
        found[f"{path}.{escape(name)}"] = cel_type(child)
        found |= _fields(child, f"{path}.{escape(name)}", depth - 1)
    return found


@functools.lru_cache(maxsize=4096)
def _cached(text: str, kind: str) -> tuple[Any, str]:
    """(the program, or None; the sentence about what is wrong, else empty)"""
    return _compile(text, _environments[kind])


def _compile(text: str, environment: Any) -> tuple[Any, str]:
    try:
        return environment.compile(text), ""
    except RuntimeError as refusal:
        return None, str(refusal).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")


def _spelt(text: str, optional: bool) -> str:
    return re.sub(r"\boldSelf\b", "oldSelves[?0]", text) if optional else text


def compiled(text: str, node: Node, *, optional: bool = False) -> Any:
    """The program of an expression about values of a schema. RuleError, or UnevaluatedError when the fault is this runtime's."""
    own = cel_type(node)
    _environment(own, {})
    program, fault = _cached(_spelt(text, optional), f"{own.name()} []")
    return _judged(text, program, fault)


def checked(text: str, node: Node, *, optional: bool = False) -> Any:
    """As ``compiled``, with the types of all fields known: what a definition is held against. The program is not for evaluation."""
    fields = _fields(node, "self") | ({} if optional else _fields(node, "oldSelf"))
    # ``has`` of a name whose type is known would be that name's value: a truth of the same length stands for it
    spelt = re.sub(r"\bhas\(\s*(?:self|oldSelf)(?:\.\w+)+\s*\)", lambda found: "true".ljust(len(found[0])), text)
    program, fault = _compile(_spelt(spelt, optional), _environment(cel_type(node), fields))
    for shown, said in zip(spelt.split("\n"), text.split("\n"), strict=True):
        fault = fault.replace(shown, said)
    return _judged(text, program, fault)


def _judged(text: str, program: Any, fault: str) -> Any:
    if program is not None:
        return program
    unknown = {name.rpartition(".")[2] for name in _UNKNOWN.findall(fault)}
    if unknown & _ABSENT or re.search(r"\.(all|exists|existsOne)\(\s*\w+\s*,\s*\w+\s*,", text):
        raise UnevaluatedError(", ".join(sorted(unknown)))
    raise RuleError(fault)


def result_type(program: Any) -> str:
    """``BOOL``, ``STRING`` or ``DYN`` and the like."""
    return str(program.return_type().name())


def evaluate(program: Any, own: Any, old: list[Any], *, optional: bool = False) -> Any:
    """What a program says of a value; ``old`` holds the value before, if there was one. RuleError as ``types.Err`` of cel-go prints it."""
    data: dict[str, Any] = {"self": own, "oldSelves": old}
    if old and not optional:
        data["oldSelf"] = old[0]
    found = program.eval(data=data)
    if str(found.type().name()) == "ERROR":
        text = str(found.value()).partition(": ")[2]
        for pattern, words in _TEXTS:
            text = pattern.sub(words, text)
        raise RuleError(text)
    return found.plain_value()
