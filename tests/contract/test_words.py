"""What a person is told names no tool: whoever calls by tools finds its name in the evidence, or in what the MCP face itself says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.contract.sources import ROOT

from instantstart.faces.mcp.catalog import TOOLS

#: rooms whose sentences reach every door
_ROOMS = ("aws", "kube", "store", "ensure", "operations", "capabilities", "faces/api", "faces/cli")
_TOOL = re.compile(rf"\b({'|'.join(tool.name for tool in TOOLS)})\b")


def _sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Every text with a space in it that is no docstring."""
    tree = ast.parse(path.read_text())
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, holders) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and id(node) not in docs:
            yield node.lineno, node.value


def test_no_sentence_counts_with_a_bracket() -> None:
    """``1 pod(s)`` is written by ``base.counting``: ``1 pod``, ``2 pods``."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for room in _ROOMS
        for path in sorted((ROOT / "src/instantstart" / room).rglob("*.py"))
        for line, text in _sentences(path)
        if re.search(r"\b[a-z]{2,}\((s|es)\)(?!\))", text) and "nodes are available" not in text
    ]
    assert found == []


def test_no_sentence_names_a_tool() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]} in {text!r}"
        for room in _ROOMS
        for path in sorted((ROOT / "src/instantstart" / room).rglob("*.py"))
        for line, text in _sentences(path)
        if (match := _TOOL.search(text))
    ]
    assert found == []
