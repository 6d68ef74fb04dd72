"""The sandbox and the control plane as processes, an agent's token, and ways to reach it and to lose it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests.clusters.processes import ControlPlane
from tests.clusters.worlds import SandboxProcess
from tests.replay import playbook
from tests.weather.ground import QUICK

from instantstart_sandbox.world.settings import Settings as Weather

RATE = 30.0
TYPE, ZONE = "ml.g5.8xlarge", "usw2-az2"
NODES = (TYPE, "ml.g5.12xlarge")


class Place:
    """One account, one control plane, one agent that is an operator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandbox = SandboxProcess(folder, RATE)
        self.plane: ControlPlane
        self._tokens: dict[tuple[str, str], str] = {}

    def start(self) -> None:
        """Both processes."""
        self.sandbox.start()
        self.sandbox.admin("settings", **{**Weather().dump(), **QUICK})
        for name in NODES:
            self.sandbox.admin("quota", service_code="sagemaker", name=f"{name} for cluster usage", value=20)
            for zone in "abc":
                self.sandbox.admin("capacity", instance_type=name, zone=f"us-west-2{zone}", available=20)
        self.plane = ControlPlane(self.folder / "plane", self.sandbox, {"INSTANTSTART_HUB_URL": self.sandbox.hub})
        self.plane.start()

    def stop(self) -> None:
        """In peace."""
        self.plane.stop()
        self.sandbox.stop()

    def token(self, role: str = "operator", kind: str = "agent") -> str:
        """A token of a role, made once."""
        if (role, kind) not in self._tokens:
            made = self.plane.call("POST", "/tokens", {"name": f"{kind} {role}", "role": role, "kind": kind})
            self._tokens[role, kind] = made["token"]
        return self._tokens[role, kind]

    @contextlib.asynccontextmanager
    async def client(self, skill: str, transport: str = "http", user: Any = None, role: str = "operator") -> AsyncIterator[Client]:
        """A client that is shown what the head of the skill asks for. ``user`` answers what the client is asked."""
        sets, token = playbook.reach(skill), self.token(role)
        if transport == "http":
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as http,
                Client(
                    streamable_http_client(f"{self.plane.url}/mcp?toolsets={sets}", http_client=http), elicitation_callback=user
                ) as made,
            ):
                yield made
            return
        environment = {**os.environ, "INSTANTSTART_URL": self.plane.url, "INSTANTSTART_TOKEN": token}
        entry = StdioServerParameters(command=sys.executable, args=["-m", "instantstart", "mcp", "--toolsets", sets], env=environment)
        async with Client(stdio_client(entry), elicitation_callback=user) as made:
            yield made


@contextlib.contextmanager
def standing(folder: Path) -> Iterator[Place]:
    """Started, and ended."""
    place = Place(folder)
    place.start()
    try:
        yield place
    finally:
        place.stop()
