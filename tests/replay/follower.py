"""An agent that follows a playbook to the letter: at each step only the tools that the step names, in its order, none left out unsaid."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from tests.replay import playbook
from tests.replay.playbook import Passage

AT_REST = ("succeeded", "failed", "cancelled", "blocked")
#: what one answer may weigh, in bytes: about 2,000 tokens
MOST_BYTES = 8000
#: named in the rules of a playbook, and meant at every step
EVERYWHERE = frozenset({"operation_wait"})
_SAME_CALL = re.compile(r"\b(the same|same|the) call\b", re.IGNORECASE)


class Follower:
    """Calls tools through ``client``, which may be another after a lost connection, and keeps what was called where."""

    def __init__(self, skill: str, client: Client) -> None:
        self.skill, self.client = skill, client
        self.passages = playbook.passages(skill)
        self.called: list[str] = []
        self._visited: list[int] = []
        self._now: Passage | None = None
        self._meant: frozenset[str] = frozenset()

    @asynccontextmanager
    async def step(self, number: int, *left: str, because: str = "") -> AsyncIterator[None]:
        """A numbered step. ``left`` are the tools that it names and that this case does not need, and ``because`` says why."""
        passage = next(each for each in self.passages if each.number == number)
        self._meant = self._before(number) if _SAME_CALL.search(passage.text) else frozenset()
        assert not self._visited or number >= self._visited[-1] or number in self._visited, "steps go forward, or again"
        assert not left or because, "what is left out has a reason"
        self._visited.append(number)
        async with self._at(passage, set(left)):
            yield

    @asynccontextmanager
    async def beside(self, tool: str, *left: str, because: str = "") -> AsyncIterator[None]:
        """The passage beside the steps that names ``tool``."""
        passage = next(each for each in self.passages if each.number is None and tool in each.tools)
        self._meant = frozenset()
        async with self._at(passage, set(left) | set(passage.tools) - {tool} if because else set(left)):
            yield

    def _before(self, number: int) -> frozenset[str]:
        """The tools of the steps before: what "the same call" is about."""
        return frozenset(tool for each in self.passages if each.number is not None and each.number < number for tool in each.tools)

    @asynccontextmanager
    async def _at(self, passage: Passage, left: set[str]) -> AsyncIterator[None]:
        self._now, before = passage, len(self.called)
        yield
        calls = [name for name in dict.fromkeys(self.called[before:]) if name in passage.tools and name not in EVERYWHERE]
        begun = any(playbook.changes(name) for name in self.called[before:])
        named = [name for name in passage.tools if name not in left and (begun or name not in EVERYWHERE)]
        if playbook.find(self.skill).reads_only:
            named = [name for name in named if not playbook.changes(name)]
        assert calls == [name for name in passage.tools if name in calls], f"order of {passage.text}"
        calls = self.called[before:]
        assert set(named) <= set(calls), f"left out without a word: {set(named) - set(calls)} of {passage.text}"
        assert not left & set(calls), "left out, yet called"
        self._now = None

    def done(self, *skipped: int) -> None:
        """Every numbered step was taken, but those of another case."""
        numbers = {each.number for each in self.passages if each.number is not None}
        assert set(self._visited) | set(skipped) == numbers
        if playbook.find(self.skill).reads_only:
            assert not any(playbook.changes(name) for name in self.called)

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool that must not fail."""
        answer = await self._call(tool, arguments)
        assert not answer.is_error, (tool, answer.content)
        return dict(answer.structured_content)

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The problem of a tool that must fail: a code, a sentence, and never a traceback."""
        answer = await self._call(tool, arguments)
        assert answer.is_error, (tool, answer.structured_content)
        problem = dict(answer.structured_content)
        assert problem["code"]
        assert problem["detail"]
        assert "Traceback" not in answer.content[0].text
        return problem

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        assert self._now is not None, f"{tool} outside of any step"
        assert tool in {*self._now.tools, *EVERYWHERE, *self._meant}, f"{tool} is not named in: {self._now.text}"
        self.called.append(tool)
        answer = await self.client.call_tool(tool, arguments)
        assert len(json.dumps(answer.structured_content, ensure_ascii=False).encode()) <= MOST_BYTES, tool
        return answer

    async def follow(self, operation: dict[str, Any], until: tuple[str, ...] = AT_REST) -> dict[str, Any]:
        """Wait again and again, with the tool that the answer names, until it rests."""
        told = operation
        while told["status"] not in until:
            assert told["status_tool"] == "operation_wait"
            told = await self.ask("operation_wait", operation_id=operation["operation_id"], seconds=50)
        return told

    async def succeeds(self, operation: dict[str, Any]) -> dict[str, Any]:
        """The same, to a good end."""
        told = await self.follow(operation)
        assert told["status"] == "succeeded", told
        return told
