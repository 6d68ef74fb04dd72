"""Differences that are tolerated, each with its reason. The list may only shrink: an entry that nothing needs any more fails the suite."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).parent / "tolerated.yaml"


@dataclass
class Tolerated:
    """One entry. ``where`` is ``file/scenario#step`` and ``path`` a place in the answer; ``*`` stands for anything in both."""

    where: str
    path: str
    reason: str
    used: int = field(default=0, compare=False)

    def covers(self, where: str, path: str) -> bool:
        """Whether a difference is this one; counts the use."""
        if not (_pattern(self.where).fullmatch(where) and _pattern(self.path).fullmatch(path)):
            return False
        self.used += 1
        return True


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in glob.split("*")), re.DOTALL)


def tolerated() -> list[Tolerated]:
    """The checked-in list, most narrow first as written."""
    return [Tolerated(str(entry["where"]), str(entry["path"]), str(entry["reason"])) for entry in yaml.safe_load(FILE.read_text()) or []]
