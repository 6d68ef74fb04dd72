"""Kubernetes quantities (``500m``, ``16Gi``, ``1e3``) as numbers, for comparing."""

from __future__ import annotations

import functools
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
