"""The sources under the laws: each file is read once, and parsed once when its tree is asked for."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root, its text, its tree."""

    path: Path
    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Every text in it."""
        return tuple(n.value for n in ast.walk(self.tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def python(*folders: str) -> tuple[Source, ...]:
    """Every Python file under some folders of the repository."""
    return tuple(sorted((source for folder in folders for source in _under(folder)), key=lambda source: source.path))


@cache
def _under(folder: str) -> tuple[Source, ...]:
    return tuple(map(_source, (ROOT / folder).rglob("*.py")))


@cache
def _source(path: Path) -> Source:
    return Source(path, str(path.relative_to(ROOT)), path.read_text())


def product() -> tuple[Source, ...]:
    """The product and the sandbox."""
    return python("src")
