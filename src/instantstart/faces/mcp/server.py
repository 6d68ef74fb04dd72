"""The MCP server: tools are the REST routes, called as whoever calls the tool.

Two entries share it: the streamable HTTP app mounted in the control plane (calls stay in the process), and the
stdio program, a thin client of a running control plane. Neither launches an engine.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, InputRequiredResult, ListToolsResult, TextContent
from mcp_types import Tool as WireTool

import instantstart
from instantstart.base import log, problems
from instantstart.faces.mcp import arguments, calls, catalog, hints, projections, skills
from instantstart.faces.mcp.rest import Rest
from instantstart.faces.mcp.schemas import Json, Route, bind
from instantstart.faces.mcp.tool import Tool

logger = log.get("instantstart.mcp")

#: fetches the app's OpenAPI document
Describe = Callable[[], Awaitable[Mapping[str, Any]]]


@dataclass
class Face:
    """What every call needs: the HTTP client, the description of the app, the toolsets where the transport does not name them."""

    http: httpx2.AsyncClient
    describe: Describe
    toolsets: catalog.Choice = catalog.DEFAULT
    #: the Authorization header where the transport carries none (stdio)
    authorization: str | None = None
    _routes: dict[str, Route] = field(default_factory=dict)

    async def routes(self) -> dict[str, Route]:
        """The routes of all tools; read once."""
        if not self._routes:
            self._routes = bind(await self.describe(), catalog.TOOLS)
        return self._routes

    def of(self, context: Any) -> tuple[Rest, catalog.Choice]:
        """Whom this call is for, and which tools it may list: from the HTTP request, or this process's own. Raises Invalid."""
        request = context.request
        if request is None:
            return Rest(self.http, self.authorization), self.toolsets
        return Rest(self.http, request.headers.get("authorization")), catalog.toolsets_of(request.query_params)


def server(face: Face) -> Server[Any]:
    """An MCP server over ``face``."""

    async def on_list(context: Any, _params: Any) -> ListToolsResult:
        with _told(INTERNAL_ERROR):  # the server is away, or does not know the token
            _, toolsets = face.of(context)
            routes = await face.routes()
        return ListToolsResult(tools=[_wire(tool, routes[tool.name]) for tool in catalog.chosen(toolsets) if tool.name in routes])

    async def on_call(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        try:
            told = await _call(face, context, params)
            return told if isinstance(told, InputRequiredResult) else _answer(told)
        except problems.Problem as problem:
            return _failure(problem)
        except Exception:
            logger.exception("unexpected exception in a tool")
            return _failure(problems.Broken("request.crashed", "Something went wrong inside InstantStart.", hint="See the server's log."))

    async def on_prompt(_context: Any, params: Any) -> Any:
        with _told():
            return skills.prompt(params.name, params.arguments)

    async def on_read(_context: Any, params: Any) -> Any:
        with _told():
            return skills.read(str(params.uri))

    return Server(
        "instantstart",
        version=instantstart.__version__,
        instructions=catalog.INSTRUCTIONS,
        on_list_tools=on_list,
        on_call_tool=on_call,
        on_list_prompts=_always(skills.prompts),
        on_get_prompt=on_prompt,
        on_list_resources=_always(skills.listed),
        on_read_resource=on_read,
    )


def _always(answer: Callable[[], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
    """A handler of a list that is the same for everybody."""

    async def handle(_context: Any, _params: Any) -> Any:
        return answer()

    return handle


@contextlib.contextmanager
def _told(code: int = INVALID_PARAMS) -> Iterator[None]:
    """A Problem as the protocol's own error: lists, prompts and resources have no result that could carry it."""
    try:
        yield
    except problems.Problem as problem:
        sentence = f"{problem.detail} {problem.hint}" if problem.hint else problem.detail  # most clients show no more than this
        code = INVALID_PARAMS if isinstance(problem, problems.Invalid) else code
        raise MCPError(code, sentence, data=problem.document()) from problem


def _wire(tool: Tool, route: Route) -> WireTool:
    return WireTool(name=tool.name, description=tool.description, input_schema=route.schema, annotations=hints.of(tool))


async def _call(face: Face, context: Any, params: Any) -> Json | InputRequiredResult:
    tool = next((each for each in catalog.TOOLS if each.name == params.name), None)
    rest, toolsets = face.of(context)
    route = (await face.routes()).get(params.name)
    if tool is None or route is None or tool not in catalog.chosen(toolsets):
        raise arguments.unknown_tool(str(params.name), tool, catalog.chosen(toolsets))
    return await calls.call(tool, route, rest, context, params)


def _answer(told: Json) -> CallToolResult:
    told = log.redact(told)
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(told, ensure_ascii=False, separators=(",", ":")))], structured_content=told
    )


def _failure(problem: problems.Problem) -> CallToolResult:
    told = log.redact(projections.problem(problem.document()))
    return CallToolResult(
        is_error=True,
        content=[TextContent(type="text", text=json.dumps(told, ensure_ascii=False, separators=(",", ":")))],
        structured_content=told,
    )


@contextlib.asynccontextmanager
async def http_app(face: Face) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """The streamable HTTP transport as a bare ASGI app. Stateless: no session is lost by a restart, any replica answers.

    The Host, the Origin and the bearer are checked by the gate of the app it is mounted in.
    """
    manager = StreamableHTTPSessionManager(server(face), stateless=True)
    async with manager.run():
        yield manager.handle_request


async def stdio(url: str, token: str | None, toolsets: catalog.Choice) -> None:
    """Serve MCP on standard input and output as a thin client of the control plane at ``url``."""
    logging.getLogger("mcp").setLevel(logging.WARNING)
    async with httpx2.AsyncClient(base_url=url, timeout=httpx2.Timeout(60.0, connect=5.0)) as http:
        authorization = f"Bearer {token}" if token else None

        async def describe() -> Mapping[str, Any]:
            document: Mapping[str, Any] = await Rest(http, authorization).send("GET", "/openapi.json")
            return document

        made = server(Face(http, describe, toolsets, authorization))
        async with stdio_server() as (reading, writing):
            await made.run(reading, writing, made.create_initialization_options())
