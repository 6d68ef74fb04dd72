"""Quantities as Kubernetes writes them, and back: the one parser of the house.

Decimal suffixes count in thousands, binary ones in 1024s; no suffix is the unit itself, so ``96`` of memory is 96 bytes.
Source: Kubernetes API reference, "Quantity".
"""

from __future__ import annotations

import re
from decimal import Decimal

_BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)}
_SMALL = {"n": Decimal(1) / 10**9, "u": Decimal(1) / 10**6, "m": Decimal(1) / 1000}
_SUFFIXES = {"": Decimal(1), **_SMALL, **_DECIMAL, **_BINARY}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,2})|([A-Za-z]{0,2}))", re.ASCII)
KIB, MIB, GIB = 1024, 1024**2, 1024**3


def parse(text: str) -> Decimal:
    """The value of a quantity. Raises ValueError with a sentence for what is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None or (found[3] or "") not in _SUFFIXES:
        raise ValueError(f"{text!r} is no quantity: write it as 500m, 4 or 16Gi")
    if found[2]:
        return Decimal(found[1] + found[2])
    return Decimal(found[1]) * _SUFFIXES[found[3] or ""]


def find(text: str | None) -> Decimal | None:
    """The value, or None for nothing and for what is no quantity."""
    try:
        return None if text is None else parse(text)
    except ValueError:
        return None


def whole(text: str | None) -> int:
    """A count or a number of bytes, rounded down; 0 for nothing and for what is no quantity."""
    found = find(text)
    return 0 if found is None else int(found)


def millis(text: str | None) -> int:
    """Thousandths, as CPU is counted; 0 for nothing and for what is no quantity."""
    found = find(text)
    return 0 if found is None else int(found * 1000)


def cpu(thousandths: int) -> str:
    """CPU in its shortest spelling: ``4`` or ``3500m``."""
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def memory(size_bytes: int) -> str:
    """Memory in its largest whole unit, rounded down to a Mi: ``16Gi``, ``1500Mi``; below one Mi in bytes."""
    if size_bytes >= GIB and size_bytes % GIB == 0:
        return f"{size_bytes // GIB}Gi"
    return f"{size_bytes // MIB}Mi" if size_bytes >= MIB else str(max(size_bytes, 0))


def shown(size_bytes: int) -> str:
    """Memory for a sentence: ``31.2 GiB``."""
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes / MIB:.0f} MiB"
