"""An audit line that the database cannot take goes to the program's log, and the caller gets the true answer."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from instantstart.base import problems
from instantstart.faces.api.audit import Audit, Auditor, Entry


async def _answers(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 503, "headers": []})
    await send({"type": "http.response.body", "body": b"store.full"})


def test_the_answer_stands_and_the_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def full(entry: Entry) -> None:
        raise problems.Busy("store.full", f"The disk is full: {entry.path} is not written down.")

    caller = SimpleNamespace(id="id-1", name="ada", kind="person", role="admin", face="rest")
    scope = {"type": "http", "method": "POST", "path": "/api/v1/clusters", "headers": [], "state": {"caller": caller}}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    with caplog.at_level(logging.ERROR):
        asyncio.run(Audit(_answers, Auditor(full))(scope, receive, send))
    assert [message.get("status") for message in sent] == [503, None]
    assert [record.facts["path"] for record in caplog.records] == ["/api/v1/clusters"]  # type: ignore[attr-defined]
