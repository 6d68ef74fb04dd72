"""The laws of the playbooks: every tool they name exists and is within their reach, and a reading one changes nothing."""

from __future__ import annotations

import re

import pytest

from instantstart.faces.mcp import skills
from instantstart.faces.mcp.catalog import DEFAULT, TOOLS
from instantstart.faces.mcp.skills import Skill
from instantstart.faces.mcp.tool import Effect

BY_NAME = {tool.name: tool for tool in TOOLS}
SKILLS = skills.all_skills()
WANTED = {
    "create-cluster", "add-capacity", "cluster-features", "deploy-model", "submit-training", "model-download", "node-recovery",
    "delete-cluster", "nccl", "node-health", "creation-failure",
}  # fmt: skip
_NAME = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")
_TABLES = re.compile(r"<!-- parameters: .*?<!-- end -->", re.DOTALL)
#: words in code that are no tools: parameters
_PARAMETERS = {"dry_run", "run_mode"}
every = pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)


def lines_with_tools(skill: Skill) -> list[tuple[str, list[str]]]:
    """Each line of the instructions with the tools it names."""
    found = [(line, _NAME.findall(line)) for line in _TABLES.sub("", skill.text).splitlines()]
    return [(line, [name for name in names if name not in _PARAMETERS]) for line, names in found if names]


def test_the_playbooks_are_there() -> None:
    assert {skill.name for skill in SKILLS} == WANTED
    assert all(skill.version >= 1 for skill in SKILLS)


@every
def test_every_tool_it_names_exists_and_is_within_reach(skill: Skill) -> None:
    for line, names in lines_with_tools(skill):
        for name in names:
            assert name in BY_NAME, f"{name}: {line}"
            tool = BY_NAME[name]
            assert tool.area in {*DEFAULT.areas, *skill.areas}, f"{name} is of the area {tool.area}"
            assert tool.toolset in {*DEFAULT.toolsets, *skill.toolsets} or "Suggest" in line or "offer it" in line, name


@every
def test_a_reading_playbook_only_suggests_changes(skill: Skill) -> None:
    for line, names in lines_with_tools(skill):
        changing = [name for name in names if BY_NAME[name].effect is not Effect.reads]
        assert not (skill.reads_only and changing) or "Suggest" in line, line


@every
def test_what_destroys_is_planned_and_agreed_first(skill: Skill) -> None:
    destroying = {name for _, names in lines_with_tools(skill) for name in names if BY_NAME[name].effect is Effect.destroys}
    if destroying - {"operation_cancel", "download_cancel", "cluster_forget"}:
        assert "dry_run=true" in skill.text
        assert "approval" in skill.text


@every
def test_what_runs_long_is_followed_to_its_end(skill: Skill) -> None:
    begins = [name for _, names in lines_with_tools(skill) for name in names if BY_NAME[name].status_tool == "operation_wait"]
    assert not begins or skill.reads_only or "`operation_wait`" in skill.text


@every
def test_other_playbooks_it_names_exist(skill: Skill) -> None:
    for name in re.findall(r"\*([a-z]+-[a-z-]+)\*", skill.text):
        assert name in WANTED, name
