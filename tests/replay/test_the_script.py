"""The replays hold on to what the playbooks say: each is read into steps, and each has a replay of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.replay import playbook

from instantstart.faces.mcp import skills

NAMES = [each.name for each in skills.all_skills()]


@pytest.mark.parametrize("name", NAMES)
def test_a_playbook_is_numbered_steps_that_name_tools(name: str) -> None:
    numbers = [each.number for each in playbook.passages(name) if each.number is not None]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 3
    named = {tool for each in playbook.passages(name) for tool in each.tools}
    assert len(named) >= 3


def test_every_playbook_is_replayed() -> None:
    texts = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_replay*.py"))
    assert set(re.findall(r'Follower\("([a-z-]+)"', texts)) == set(NAMES)
