"""The word that was meant by one that is not known: for refusals that say what would have been right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_ALIKE = 0.7


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` was meant to be: spelt otherwise, a part more or less, mistyped; None when none is near."""
    names, parts = list(known), _parts(word)
    for name in names:
        if _parts(name) == parts:
            return name
    close = difflib.get_close_matches("_".join(parts)[:80], names, n=1, cutoff=_ALIKE)
    if close:
        return close[0]
    inside = [name for name in names if parts and (set(parts) < set(_parts(name)) or set(_parts(name)) < set(parts))]
    return inside[0] if len(inside) == 1 else None


def _parts(word: str) -> list[str]:
    """``clusterName`` and ``cluster-name`` are both cluster, name."""
    return [part.lower() for part in _BREAKS.split(word[:200]) if part]
