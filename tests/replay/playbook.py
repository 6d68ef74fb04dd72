"""A playbook as a script: its numbered steps and its other passages, each with the tools that it names, in their order."""

from __future__ import annotations

import re
from dataclasses import dataclass

from instantstart.faces.mcp import skills
from instantstart.faces.mcp.catalog import TOOLS
from instantstart.faces.mcp.tool import Effect, Tool

TOOL_BY_NAME = {tool.name: tool for tool in TOOLS}
_NAME = re.compile(r"`([a-z][a-z0-9_]*)`")
_TABLES = re.compile(r"<!-- parameters: .*?<!-- end -->", re.DOTALL)
_NUMBER = re.compile(r"(\d+)\. ")


@dataclass(frozen=True)
class Passage:
    """A numbered step (``number``), or a bullet or paragraph beside the steps (None)."""

    number: int | None
    text: str
    tools: tuple[str, ...]


def passages(name: str) -> tuple[Passage, ...]:
    """Every passage of a playbook that names a tool, and every numbered step."""
    skill = find(name)
    blocks: list[str] = []
    for line in _TABLES.sub("", skill.text).splitlines():
        if line.startswith(("- ", "#")) or _NUMBER.match(line) or not line.strip() or not blocks:
            blocks.append(line)
        elif line.startswith(" ") or blocks[-1].strip():
            blocks[-1] += " " + line.strip()
        else:
            blocks.append(line)
    found = [_passage(block) for block in blocks if block.strip() and not block.startswith("#")]
    return tuple(each for each in found if each.tools or each.number is not None)


def _passage(block: str) -> Passage:
    number = _NUMBER.match(block)
    named = [name for name in _NAME.findall(block) if name in TOOL_BY_NAME]
    return Passage(int(number[1]) if number else None, block, tuple(dict.fromkeys(named)))


def find(name: str) -> skills.Skill:
    """The playbook of a name."""
    return next(each for each in skills.all_skills() if each.name == name)


def reach(name: str) -> str:
    """The toolsets and areas that its head asks for, as the query of /mcp says them."""
    skill = find(name)
    return ",".join(dict.fromkeys(["read", *([] if skill.reads_only else ["operate"]), *skill.toolsets, *skill.areas]))


def changes(tool: str) -> bool:
    """Whether it changes anything."""
    known: Tool = TOOL_BY_NAME[tool]
    return known.effect is not Effect.reads
