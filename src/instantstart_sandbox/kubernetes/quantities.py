"""Kubernetes quantities (``500m``, ``16Gi``, ``1e3``): as numbers, and in the canonical form that the API server stores."""

from __future__ import annotations

import functools
import math
import re
from fractions import Fraction
from typing import Any, Final

_SUFFIXES: Final = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    **{letter: Fraction(1000 ** (i + 1)) for i, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Fraction(1024 ** (i + 1)) for i, letter in enumerate("KMGTPE")},
}  # fmt: skip
_FORM: Final = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([eE])([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")


@functools.lru_cache(maxsize=8192)
def parse(quantity: Any) -> Fraction | None:
    """The number, or None when it is not a quantity."""
    match = _FORM.fullmatch(str(quantity))
    if match is None:
        return None
    sign, digits, exponent, power, suffix = match.groups()
    value = Fraction(digits if not digits.endswith(".") else digits[:-1])
    value *= Fraction(10) ** int(power) if exponent else _SUFFIXES[suffix or ""]
    return -value if sign == "-" else value


def amount(quantity: Any) -> Fraction:
    """The number; 0 for what is not a quantity (decoding refuses that earlier)."""
    return parse(quantity) or Fraction(0)


@functools.lru_cache(maxsize=8192)
def canonical(quantity: str | float) -> str:
    """The form in which a quantity comes back: ``1000m`` as ``1``, ``0.5`` as ``500m``, ``1024Mi`` as ``1Gi``.

    The largest suffix of the given kind (binary, decimal, exponent) that needs no fraction; below a nano it is rounded up. What is
    no quantity is answered as it is.
    """
    text = str(quantity)
    value = parse(text)
    return text if value is None else show(value, text)


def rounded(quantity: str | float) -> str:
    """The quantity without anything finer than a thousandth, rounded up, as a container's resources have it."""
    value = parse(quantity)
    if value is None or (value * 1000).denominator == 1:
        return str(quantity)
    return show(Fraction(math.ceil(value * 1000), 1000), quantity)


def show(value: Fraction, like: str | float) -> str:
    """A number as a quantity with the kind of suffix that ``like`` has."""
    match = _FORM.fullmatch(str(like))
    if match is None:
        return str(value)
    if (match[5] or "").endswith("i") and abs(value) >= 1024 and value.denominator == 1:
        return _scaled(int(value), 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    nanos = math.ceil(value * 10**9) if value > 0 else math.floor(value * 10**9)
    if match[3]:
        return _scaled(nanos, 1000, ("e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"))
    return _scaled(nanos, 1000, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))


def _scaled(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    if number == 0:
        return "0"
    power = 0
    while number % base == 0 and power < len(suffixes) - 1:
        number //= base
        power += 1
    return f"{number}{suffixes[power]}"
