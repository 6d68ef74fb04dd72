"""Playbooks for agents (``skills/NAME/SKILL.md``), served as MCP prompts and as resources ``skill://NAME``.

A file is a head of YAML between ``---`` lines (name, description, version, areas, toolsets, reads_only) and Markdown. The parameter
tables in it are written by tools/generate_docs.py from the routes' own schemas; a contract test holds every tool that is named.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from mcp_types import (
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
)

from instantstart.base import problems
from instantstart.faces.mcp.projections import plain

#: beside the package in a wheel; beside ``src`` in a checkout
_PLACES = (Path(str(resources.files("instantstart"))) / "skills", Path(__file__).parents[4] / "skills")
_SCHEME = "skill://"
_MOST_CHARACTERS = 500


@dataclass(frozen=True)
class Skill:
    """One playbook. ``areas`` and ``toolsets`` are what its tools need beside the default set; ``text`` is the Markdown after the head."""

    name: str
    description: str
    version: int
    text: str
    areas: tuple[str, ...] = ("core",)
    toolsets: tuple[str, ...] = ()
    reads_only: bool = False


@functools.cache
def all_skills() -> tuple[Skill, ...]:
    """Every skill of this installation, by name."""
    folder = next((place for place in _PLACES if place.is_dir()), None)
    return tuple(parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/SKILL.md"))) if folder else ()


def parse(text: str) -> Skill:
    """A skill from its file. ValueError or TypeError when the head is not as it should be."""
    _, head, body = text.split("---\n", 2)
    given: dict[str, Any] = yaml.safe_load(head)
    given.update({key: tuple(given[key]) for key in ("areas", "toolsets") if key in given})
    return Skill(text=body.strip() + "\n", **given)


def prompts() -> ListPromptsResult:
    """``prompts/list``."""
    wish = [PromptArgument(name="wish", description="What the person asked for, in their words.", required=False)]
    return ListPromptsResult(prompts=[Prompt(name=each.name, description=each.description, arguments=wish) for each in all_skills()])


def prompt(name: str, arguments: dict[str, str] | None) -> GetPromptResult:
    """``prompts/get``: the playbook, and under it what the person wishes. Raises NotFound."""
    skill = _find(name)
    wish = plain((arguments or {}).get("wish", ""), _MOST_CHARACTERS)
    text = skill.text + (f"\n## What the person asked for\n\n{wish}\n" if wish else "")
    return GetPromptResult(
        description=skill.description, messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))]
    )


def listed() -> ListResourcesResult:
    """``resources/list``."""
    return ListResourcesResult(
        resources=[
            Resource(uri=_SCHEME + each.name, name=each.name, description=each.description, mime_type="text/markdown")
            for each in all_skills()
        ]
    )


def read(uri: str) -> ReadResourceResult:
    """``resources/read``. Raises NotFound."""
    skill = _find(uri.removeprefix(_SCHEME) if uri.startswith(_SCHEME) else "")
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="text/markdown", text=skill.text)])


def _find(name: str) -> Skill:
    found = next((each for each in all_skills() if each.name == name), None)
    if found is None:
        raise problems.NotFound("skill.unknown", f"There is no skill {plain(name, 80)}.", hint="prompts/list shows them.")
    return found
