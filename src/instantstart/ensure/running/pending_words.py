"""What an explanation is, and how foreign text is made short enough to be shown beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Resource = dict[str, Any]

_LONGEST = 300
#: failing: it ended badly; blocked: a person must act; waiting: it goes on when something comes; starting: it is on its way
Kind = Literal["failing", "blocked", "waiting", "starting"]


@dataclass(frozen=True)
class Why:
    """Why something does not run: a code, one sentence, evidence and the next step. ``untrusted_`` evidence is text of the cluster."""

    code: str
    kind: Kind
    text: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    next_step: str = ""

    def counted(self, count: int, total: int) -> Why:
        """The same with how many share it: ``3 of 8 pods: ...``."""
        return replace(self, text=f"{count} of {total} pods: {self.text}")


def short(text: str, limit: int = _LONGEST) -> str:
    """One line, not too long."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
