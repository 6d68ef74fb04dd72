"""What is documented is what is: the generated pages equal what the code would write now."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from tests.contract.sources import ROOT


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generated() -> dict[Path, str]:
    found: dict[Path, str] = _generator().generated()
    return found


@pytest.mark.parametrize("name", ["openapi.json", "operations.md", "tools.md", "settings.md", "problems.md"])
def test_a_generated_page_is_up_to_date(generated: dict[Path, str], name: str) -> None:
    page = ROOT / "docs" / name
    assert page.read_text() == generated[page], "run: make docs"


def test_every_link_of_the_readme_leads_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    targets = [part.split(")")[0] for part in text.split("](")[1:]]
    missing = [t for t in targets if not t.startswith("http") and not (ROOT / t.split("#")[0]).exists()]
    assert missing == []


def test_every_verb_of_the_makefile_is_told_by_help() -> None:
    text = (ROOT / "Makefile").read_text()
    verbs = set(re.findall(r"^([a-z-]+):(?!=)", text, re.MULTILINE))
    told = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    assert verbs
    assert verbs == told
