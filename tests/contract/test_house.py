"""House rules that no linter knows. One test a rule; each says why when it fails."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.contract import sources

FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "manager", "managers"}
#: design.md 2: the four boundaries where anything may be caught, and the sandbox's request boundary
BOUNDARIES = {
    "src/instantstart/faces/api/problems.py",
    "src/instantstart/faces/api/gate.py",
    "src/instantstart/operations/engine.py",
    "src/instantstart/operations/ticking.py",
    "src/instantstart/operations/keeper.py",
    "src/instantstart/faces/mcp/server.py",
    "src/instantstart/faces/api/streams.py",
    "src/instantstart/base/spans.py",  # notes how a call ended and lets it fly on
}
_MACHINE = re.compile(r"/work/|/root/|pypi\.org|registry\.npmjs|proxy\.golang|deb\.debian")
_ARN, _SUFFIX = re.compile(r"arn:aws:"), re.compile(r"amazonaws\.com")
#: service principals keep one suffix in every partition, so this module alone may write it
_SUFFIX_HOME = {"src/instantstart/ensure/iam/principals.py"}
_ZONE = re.compile(r"^(?:[a-z]{2}-[a-z]+-\d)[a-f]$")


def _slices(name: str) -> list[sources.Source]:
    return [s for s in sources.product() if s.name.startswith("src/instantstart/capabilities/") and s.path.name == name]


def test_workflows_hold_declarations_only() -> None:
    found = [
        s.name
        for s in _slices("workflows.py")
        if any(isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for n in ast.walk(s.tree))
    ]
    assert found == []


def test_no_room_for_leftovers() -> None:
    assert [s.name for s in sources.python("src", "tests") if FORBIDDEN_NAMES & set(s.path.with_suffix("").parts)] == []


def test_a_route_body_has_at_most_five_statements() -> None:
    long = {}
    for source in _slices("routes.py"):
        for node in source.tree.body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                body = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
                if len(body) > 5:
                    long[f"{source.name}:{node.name}"] = len(body)
    assert long == {}


def test_everything_is_caught_at_the_boundaries_only() -> None:
    wide = set()
    for source in sources.python("src/instantstart"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ExceptHandler) and (
                node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
            ):
                wide.add(source.name)
    assert wide <= BOUNDARIES


def test_no_mock_where_the_sandbox_can_answer() -> None:
    users = {
        s.name
        for s in sources.python("tests")
        if "unittest" in s.text
        for n in ast.walk(s.tree)
        if isinstance(n, ast.ImportFrom) and n.module == "unittest.mock"
    }
    assert users == set()


def test_partition_and_suffix_come_from_the_sdk() -> None:
    texts = [(s.name, text) for s in sources.python("src/instantstart") for text in s.texts]
    assert {name for name, text in texts if _ARN.search(text)} == set()
    assert {
        name for name, text in texts if _SUFFIX.search(text) and "k8s" not in text and "/" not in text and " " not in text
    } <= _SUFFIX_HOME


def test_zones_come_from_the_api() -> None:
    texts = [(s.name, text) for s in sources.python("src/instantstart") for text in s.texts]
    assert {(name, text) for name, text in texts if _ZONE.match(text)} == set()


def test_no_machine_and_no_registry_is_named() -> None:
    suffixes = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".json", ".sh", ".ts", ".tsx", ""}
    files = [p for p in _checked_in(sources.ROOT) if p.suffix in suffixes]
    named = {str(p.relative_to(sources.ROOT)) for p in files if _MACHINE.search(p.read_text(errors="ignore"))}
    assert named == {"tests/contract/test_house.py"}


#: folders of tools, never looked into
_MADE = {".git", "node_modules", ".venv", ".instantstart", "__pycache__", ".mypy_cache", ".hypothesis", "web", ".ruff_cache"}
_MADE |= {".pytest_cache", "dist", ".import_linter_cache"}


def _checked_in(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _MADE and not name.endswith(".egg-info")]
        yield from (path for name in files if (path := Path(root) / name).is_file())
