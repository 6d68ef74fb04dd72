"""``instantstart agent config``: what an agent's own configuration file must say, with no secret in it."""

from __future__ import annotations

import json
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import contexts, show
from instantstart.faces.mcp import catalog

app = typer.Typer(help="Configurations for AI agents.", no_args_is_help=True)
#: beside the package in a wheel; beside ``src`` in a checkout
_PLACES = (Path(str(resources.files("instantstart"))) / "agents", Path(__file__).parents[4] / "agents")
_TOKEN = "${INSTANTSTART_TOKEN}"  # noqa: S105 - a reference, which the agent fills in from its environment


class Agent(StrEnum):
    """Whose configuration."""

    kiro = "kiro"
    claude = "claude"
    generic = "generic"


class Way(StrEnum):
    """How the agent reaches the server."""

    http = "http"
    stdio = "stdio"
    container = "container"


_FILES = {Agent.kiro: "hypd-inst-agent.json", Agent.claude: "claude.json", Agent.generic: "generic.json"}
_GOES_TO = {
    Agent.kiro: "~/.kiro/agents/hypd-inst-agent.json, then: kiro-cli chat --agent hypd-inst-agent",
    Agent.claude: ".mcp.json in the folder where Claude Code runs",
    Agent.generic: "your client's file of MCP servers",
}


@app.command("config")
def config(
    agent: Annotated[Agent, typer.Option("--for", help="Whose configuration to print.")],
    way: Annotated[
        Way, typer.Option("--through", help="http: the server's address; stdio: this program; container: the running container.")
    ] = Way.http,
    url: Annotated[str | None, typer.Option(help="Address of the server; left out: the one that this command line uses.")] = None,
    toolsets: Annotated[
        str | None, typer.Option(help="Sets and areas of tools, as in read,operate,training; all; left out: the usual ones.")
    ] = None,
) -> None:
    """Print a configuration. It takes the token from INSTANTSTART_TOKEN: make one with `instantstart token create NAME --kind agent`."""
    address = contexts.check_url(url) if url else contexts.resolve().url
    catalog.parse_toolsets(toolsets)  # a word that no server knows is refused here already
    made = json.loads(_template(_FILES[agent]))
    made["mcpServers"]["instantstart"] = _server(way, address, toolsets)
    show.data(made, show.Format.json)
    show.note(f"Put this into {_GOES_TO[agent]}.")


def _template(name: str) -> str:
    for place in _PLACES:
        if (place / name).is_file():
            return (place / name).read_text(encoding="utf-8")
    raise problems.Broken("agent.no_template", f"{name} is missing from this installation.", hint="Install InstantStart anew.")


def _server(way: Way, url: str, toolsets: str | None) -> dict[str, Any]:
    chosen = ["--toolsets", toolsets] if toolsets else []
    if way is Way.http:
        query = f"?toolsets={toolsets}" if toolsets else ""
        return {"type": "http", "url": f"{url}/mcp{query}", "headers": {"Authorization": f"Bearer {_TOKEN}"}}
    if way is Way.stdio:
        return {"command": "instantstart", "args": ["mcp", *chosen], "env": {"INSTANTSTART_URL": url, "INSTANTSTART_TOKEN": _TOKEN}}
    inside = ["exec", "-i", "--env", "INSTANTSTART_TOKEN", "instantstart", "instantstart", "mcp", *chosen]
    return {"command": "docker", "args": inside, "env": {"INSTANTSTART_TOKEN": _TOKEN}}
