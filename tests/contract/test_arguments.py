"""The law of names: every tool refuses an argument that it does not have, before anything is asked, and says which it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instantstart.base import problems
from instantstart.faces.mcp import arguments, catalog
from instantstart.faces.mcp.schemas import bind

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())


def test_every_tool_refuses_a_name_it_does_not_have() -> None:
    bound = bind(DOCUMENT, catalog.TOOLS)
    assert len(bound) == len(catalog.TOOLS)
    for tool in catalog.TOOLS:
        with pytest.raises(problems.Invalid) as told:
            arguments.check(tool, bound[tool.name], {"no_such_argument": 1})
        assert told.value.fields[0].pointer == "/no_such_argument"
        for name in bound[tool.name].schema["properties"]:
            assert name in str(told.value.hint)


def test_every_argument_of_every_tool_is_taken_and_recognized_in_another_spelling() -> None:
    bound = bind(DOCUMENT, catalog.TOOLS)
    for tool in catalog.TOOLS:
        for name in bound[tool.name].schema["properties"]:
            arguments.check(tool, bound[tool.name], {name: 1})
            spelt = name.replace("_", "-") if "_" in name else name.upper()
            with pytest.raises(problems.Invalid, match=rf"did you mean {name}\?"):
                arguments.check(tool, bound[tool.name], {spelt: 1})
