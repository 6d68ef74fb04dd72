"""Sizes that fail the build: a file 500 lines, a UI file 250. Functions, parameters and complexity are ruff's (pyproject.toml)."""

from __future__ import annotations

import ast

import pytest
from tests.contract import sources

FILE_LINES, UI_LINES, FUNCTION_LINES = 500, 250, 40


@pytest.mark.parametrize("source", sources.python("src", "tests", "tools"), ids=lambda s: s.name)
def test_a_file_has_at_most_500_lines(source: sources.Source) -> None:
    assert len(source.text.splitlines()) <= FILE_LINES


def test_a_ui_file_has_at_most_250_lines() -> None:
    files = [p for p in (sources.ROOT / "ui" / "src").rglob("*.ts*") if p.name != "api.d.ts"]
    assert {p.name: n for p in files if (n := len(p.read_text().splitlines())) > UI_LINES} == {}


def test_a_function_has_at_most_40_lines() -> None:
    long = {}
    for source in (s for s in sources.product() if "/migrations/" not in s.name):  # a migration is a list
        for node in ast.walk(source.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
                first = node.body[0].lineno if node.body else node.lineno
                if node.end_lineno - first + 1 > FUNCTION_LINES:
                    long[f"{source.name}:{node.name}"] = node.end_lineno - first + 1
    assert long == {}
