"""A part of Prometheus' query language: what people write to scale a model server. Everything else is refused with its place.

Selectors with ``= != =~ !~``, ranges ``[5m]``, ``offset``; ``rate irate increase delta *_over_time``; ``sum avg min max count topk`` with
``by``/``without``; ``histogram_quantile clamp_min clamp_max abs ceil floor round vector scalar absent time``; ``+ - * / %`` and comparisons
(vectors meet on equal labels); ``and or unless``. No subqueries, no ``group_left``, no ``label_replace``.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .samples import Samples, Series, latest, within


class QueryError(Exception):
    """A query that cannot be read or evaluated; the message is shaped as Prometheus'."""


@dataclass
class Sample:
    """One element of an instant vector."""

    labels: dict[str, str]
    value: float


Vector = list[Sample]
Value = float | Vector
_TOKEN = re.compile(
    r"""\s*(?:(?P<duration>\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|"""
    r"""(?P<name>[a-zA-Z_:][a-zA-Z0-9_:.]*)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%(){}\[\],=<>]))"""
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_AGGREGATIONS = ("sum", "avg", "min", "max", "count", "topk", "group")
_LEVELS = (("or",), ("and", "unless"), ("==", "!=", ">", "<", ">=", "<="), ("+", "-"), ("*", "/", "%"))
_MATCH: dict[str, Callable[[str, str], bool]] = {
    "=": lambda have, wanted: have == wanted,
    "!=": lambda have, wanted: have != wanted,
    "=~": lambda have, wanted: re.fullmatch(wanted, have) is not None,
    "!~": lambda have, wanted: re.fullmatch(wanted, have) is None,
}


def seconds(text: str) -> float:
    """``1h30m`` in seconds."""
    return sum(float(n) * _UNITS[u] for n, u in re.findall(r"(\d+)(ms|[smhdwy])", text))


def query(text: str, samples: Samples, moment: float) -> Value:
    """The value of a query at a virtual moment. QueryError."""
    parser = _Parser(text, samples, moment)
    found: Value = parser.expression(0)
    if isinstance(found, list) and found and isinstance(found[0], _Range):
        raise QueryError('invalid expression type "range vector" for instant query')
    parser.end()
    return found


@dataclass
class _Range:
    series: Series
    values: list[tuple[float, float]]


class _Parser:
    """Reads and evaluates in one go: a query is evaluated at one moment only."""

    def __init__(self, text: str, samples: Samples, moment: float) -> None:
        self._samples, self._moment = samples, moment
        self._tokens = self._read(text)
        self._at = 0

    @staticmethod
    def _read(text: str) -> list[tuple[str, str, int]]:
        found, place = [], 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None or match.lastgroup is None:
                raise QueryError(
                    f'invalid parameter "query": 1:{place + 1}: parse error: unexpected character: {text[place:].strip()[:1]!r}'
                )
            found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            place = match.end()
        return found

    # ------------------------------------------------------------------ words

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        word = self._peek()
        if wanted and word not in wanted:
            raise self._unexpected(" or ".join(f'"{w}"' for w in wanted))
        self._at += 1
        return word

    def _unexpected(self, wanted: str = "") -> QueryError:
        if self._at >= len(self._tokens):
            return QueryError('invalid parameter "query": parse error: unexpected end of input')
        _, word, place = self._tokens[self._at]
        told = f", expected {wanted}" if wanted else ""
        return QueryError(f'invalid parameter "query": 1:{place + 1}: parse error: unexpected {word!r}{told}')

    def end(self) -> None:
        """Nothing may follow."""
        if self._at < len(self._tokens):
            raise self._unexpected()

    # ------------------------------------------------------------------ expressions

    def expression(self, level: int) -> Any:
        """One expression; operators of ``level`` and tighter ones belong to it."""
        if level == len(_LEVELS):
            return self._unary()
        left = self.expression(level + 1)
        while self._peek() in _LEVELS[level]:
            sign = self._take()
            plain = self._peek() != "bool"
            if not plain:
                self._take("bool")
            if self._peek() in ("on", "ignoring", "group_left", "group_right"):
                raise QueryError(f'the sandbox does not evaluate "{self._peek()}" in a query')
            left = _binary(sign, left, self.expression(level + 1), plain)
        return left

    def _unary(self) -> Any:
        if self._peek() in ("-", "+"):
            sign, value = self._take(), self._unary()
            return _binary("*", value, -1.0 if sign == "-" else 1.0, True)
        return self._primary()

    def _primary(self) -> Any:
        if self._at >= len(self._tokens):
            raise self._unexpected()
        kind, word, _ = self._tokens[self._at]
        if word == "(":
            self._take("(")
            found = self.expression(0)
            self._take(")")
            return found
        if kind == "number":
            return float(self._take())
        if word == "{":
            return self._selector("")
        if kind != "name":
            raise self._unexpected()
        self._take()
        if word in _AGGREGATIONS and self._peek() in ("(", "by", "without"):
            return self._aggregation(word)
        if self._peek() == "(":
            return self._call(word)
        if word.lower() in ("inf", "nan"):
            return float(word.lower())
        return self._selector(word)

    def _selector(self, name: str) -> Any:
        tests: list[tuple[str, str, str]] = [("__name__", "=", name)] if name else []
        if self._peek() == "{":
            self._take("{")
            while self._peek() != "}":
                label, sign = self._take(), self._take("=", "!=", "=~", "!~")
                tests.append((label, sign, self._text()))
                if self._peek() != "}":
                    self._take(",")
            self._take("}")
        names = [w for label, sign, w in tests if label == "__name__" and sign == "="] or self._samples.names()
        series = [s for n in names for s in self._samples.named(n) if all(_MATCH[t](s.labels.get(k, ""), w) for k, t, w in tests)]
        span = 0.0
        if self._peek() == "[":
            self._take("[")
            span = seconds(self._take())
            self._take("]")
        moment = self._moment
        if self._peek() == "offset":
            self._take("offset")
            moment -= seconds(self._take())
        if span:
            return [_Range(s, v) for s in series if (v := within(s, moment - span, moment))]
        return [Sample(s.labels, value) for s in series if (value := latest(s, moment)) is not None]

    def _text(self) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] != "text":
            raise self._unexpected("a string")
        return self._take()[1:-1].replace('\\"', '"').replace("\\\\", "\\")

    def _aggregation(self, name: str) -> Vector:
        grouping = self._grouping()
        self._take("(")
        given = self.expression(0)
        most = 0
        if self._peek() == ",":
            self._take(",")
            most, given = int(given), self.expression(0)
        self._take(")")
        return _aggregate(name, _vector(given), grouping or self._grouping(), most)

    def _grouping(self) -> tuple[str, list[str]] | None:
        if self._peek() not in ("by", "without"):
            return None
        word, labels = self._take(), []
        self._take("(")
        while self._peek() != ")":
            labels.append(self._take())
            if self._peek() != ")":
                self._take(",")
        self._take(")")
        return word, labels

    def _call(self, name: str) -> Any:
        self._take("(")
        given = []
        while self._peek() != ")":
            given.append(self.expression(0))
            if self._peek() != ")":
                self._take(",")
        self._take(")")
        function = _FUNCTIONS.get(name)
        if name == "time":
            return self._moment
        if function is None:
            raise QueryError(f'invalid parameter "query": parse error: unknown function with name "{name}"')
        try:
            return function(*given)
        except TypeError as error:
            raise QueryError(f'wrong arguments in call to function "{name}"') from error


# ---------------------------------------------------------------------- operators


def _vector(value: Any) -> Vector:
    if isinstance(value, float) or (value and isinstance(value[0], _Range)):
        raise QueryError("expected type instant vector")
    return list(value)


def _bare(labels: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in labels.items() if k != "__name__"}


def _key(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(_bare(labels).items()))


def _number(sign: str, left: float, right: float) -> float:
    if sign in ("/", "%") and right == 0:
        return math.nan if left == 0 or sign == "%" else math.copysign(math.inf, left)
    table: dict[str, Callable[[], float]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
        "%": lambda: math.fmod(left, right),
        "==": lambda: left == right,
        "!=": lambda: left != right,
        ">": lambda: left > right,
        "<": lambda: left < right,
        ">=": lambda: left >= right,
        "<=": lambda: left <= right,
    }
    return float(table[sign]())


def _binary(sign: str, left: Any, right: Any, plain: bool) -> Any:
    if sign in ("and", "or", "unless"):
        return _set(sign, _vector(left), _vector(right))
    if isinstance(left, float) and isinstance(right, float):
        return _number(sign, left, right)
    filters = sign in _LEVELS[2] and plain
    if isinstance(right, float):
        pairs = [(s, s.value, right) for s in _vector(left)]
    elif isinstance(left, float):
        pairs = [(s, left, s.value) for s in _vector(right)]
    else:
        others = {_key(s.labels): s.value for s in _vector(right)}
        pairs = [(s, s.value, others[_key(s.labels)]) for s in _vector(left) if _key(s.labels) in others]
    if filters:
        return [s for s, a, b in pairs if _number(sign, a, b)]
    return [Sample(_bare(s.labels), _number(sign, a, b)) for s, a, b in pairs]


def _set(sign: str, left: Vector, right: Vector) -> Vector:
    there = {_key(s.labels) for s in right}
    if sign == "and":
        return [s for s in left if _key(s.labels) in there]
    if sign == "unless":
        return [s for s in left if _key(s.labels) not in there]
    mine = {_key(s.labels) for s in left}
    return [*left, *(s for s in right if _key(s.labels) not in mine)]


def _aggregate(name: str, vector: Vector, grouping: tuple[str, list[str]] | None, most: int) -> Vector:
    groups: dict[tuple[tuple[str, str], ...], Vector] = {}
    for sample in vector:
        labels = _bare(sample.labels)
        word, chosen = grouping or ("by", [])
        kept = {k: v for k, v in labels.items() if (k in chosen) == (word == "by")}
        groups.setdefault(tuple(sorted(kept.items())), []).append(sample)
    if name == "topk":
        return [s for g in groups.values() for s in sorted(g, key=lambda s: -s.value)[:most]]
    count: dict[str, Callable[[list[float]], float]] = {
        "sum": math.fsum,
        "avg": lambda v: math.fsum(v) / len(v),
        "min": min,
        "max": max,
        "count": lambda v: float(len(v)),
        "group": lambda v: 1.0,
    }
    return [Sample(dict(key), float(count[name]([s.value for s in g]))) for key, g in groups.items()]


# ---------------------------------------------------------------------- functions


def _grown(values: list[tuple[float, float]]) -> float:
    """How much a counter has grown; a restart begins at nothing."""
    total = 0.0
    for (_, before), (_, after) in itertools.pairwise(values):
        total += after - before if after >= before else after
    return total


def _over(ranges: Any, fold: Callable[[list[tuple[float, float]]], float | None]) -> Vector:
    if isinstance(ranges, float) or (ranges and not isinstance(ranges[0], _Range)):
        raise QueryError("expected type range vector")
    found = [(r, fold(r.values)) for r in ranges]
    return [Sample(_bare(r.series.labels), v) for r, v in found if v is not None]


def _per_second(values: list[tuple[float, float]]) -> float | None:
    span = values[-1][0] - values[0][0]
    return _grown(values) / span if len(values) > 1 and span > 0 else None


def _map(change: Callable[[float], float]) -> Callable[[Any], Value]:
    def apply(value: Any) -> Value:
        return change(value) if isinstance(value, float) else [Sample(_bare(s.labels), change(s.value)) for s in _vector(value)]

    return apply


def _quantile(share: float, vector: Any) -> Vector:
    groups: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for sample in _vector(vector):
        labels = {k: v for k, v in _bare(sample.labels).items() if k != "le"}
        groups.setdefault(tuple(sorted(labels.items())), []).append((float(sample.labels.get("le", "inf")), sample.value))
    return [Sample(dict(key), value) for key, b in groups.items() if not math.isnan(value := _in_buckets(share, sorted(b)))]


def _in_buckets(share: float, buckets: list[tuple[float, float]]) -> float:
    total = buckets[-1][1]
    if not total:
        return math.nan
    rank, below, start = share * total, 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if math.isinf(bound):
                return start
            return start + (bound - start) * (rank - below) / max(count - below, 1e-12)
        below, start = count, bound
    return start


def _absent(vector: Any) -> Vector:
    return [] if _vector(vector) else [Sample({}, 1.0)]


def _scalar(vector: Any) -> float:
    found = _vector(vector)
    return found[0].value if len(found) == 1 else math.nan


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rate": lambda r: _over(r, _per_second),
    "irate": lambda r: _over(r, lambda v: _per_second(v[-2:])),
    "increase": lambda r: _over(r, lambda v: _grown(v) if len(v) > 1 else None),
    "delta": lambda r: _over(r, lambda v: v[-1][1] - v[0][1] if len(v) > 1 else None),
    "avg_over_time": lambda r: _over(r, lambda v: math.fsum(x for _, x in v) / len(v)),
    "sum_over_time": lambda r: _over(r, lambda v: math.fsum(x for _, x in v)),
    "max_over_time": lambda r: _over(r, lambda v: max(x for _, x in v)),
    "min_over_time": lambda r: _over(r, lambda v: min(x for _, x in v)),
    "count_over_time": lambda r: _over(r, lambda v: float(len(v))),
    "last_over_time": lambda r: _over(r, lambda v: v[-1][1]),
    "histogram_quantile": _quantile,
    "clamp_min": lambda v, least: _map(lambda x: max(x, least))(v),
    "clamp_max": lambda v, most: _map(lambda x: min(x, most))(v),
    "abs": _map(abs),
    "ceil": _map(lambda x: float(math.ceil(x))),
    "floor": _map(lambda x: float(math.floor(x))),
    "round": _map(lambda x: float(math.floor(x + 0.5))),
    "vector": lambda n: [Sample({}, float(n))],
    "scalar": _scalar,
    "absent": _absent,
}


def result(found: Value, moment: float) -> dict[str, Any]:
    """``data`` of ``/api/v1/query``."""
    if isinstance(found, float):
        return {"resultType": "scalar", "result": [moment, _shown(found)]}
    return {"resultType": "vector", "result": [{"metric": s.labels, "value": [moment, _shown(s.value)]} for s in found]}


def _shown(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.15g}"
