"""The sources under the laws, parsed once."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root, its text, its tree."""

    path: Path
    name: str
    text: str
    tree: ast.Module


@cache
def python(*folders: str) -> tuple[Source, ...]:
    """Every Python file under some folders of the repository."""
    files = sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py"))
    texts = {p: p.read_text() for p in files}
    return tuple(Source(p, str(p.relative_to(ROOT)), text, ast.parse(text)) for p, text in texts.items())


def product() -> tuple[Source, ...]:
    """The product and the sandbox."""
    return python("src")
