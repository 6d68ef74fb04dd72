"""The place of MCP in the app: an ASGI app that loads the SDK at the first request, so that the server starts fast and lean."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx2

Asgi = Callable[..., Awaitable[None]]


class Mount:
    """``self`` is the ASGI app; ``self.lifespan`` goes to the app's lifespan; ``connect`` tells it the whole app."""

    def __init__(self) -> None:
        self._app: Any = None
        self._describe: Callable[[], Mapping[str, Any]] = dict
        self._loading: asyncio.Lock | None = None
        self._inner: Asgi | None = None
        self._stop: asyncio.Event | None = None
        self._serving: asyncio.Task[None] | None = None

    def connect(self, app: Any, describe: Callable[[], Mapping[str, Any]]) -> None:
        """``app`` is the whole ASGI app, gate included; ``describe`` answers its OpenAPI."""
        self._app, self._describe = app, describe

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Ends what the first request began."""
        self._loading, self._stop = asyncio.Lock(), asyncio.Event()
        try:
            yield
        finally:
            self._stop.set()
            if self._serving is not None:
                await self._serving

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._loading is None:
            raise RuntimeError("the lifespan of the app was not run")
        async with self._loading:
            if self._inner is None:
                await self._begin()
        assert self._inner is not None
        await self._inner(scope, receive, send)

    async def _begin(self) -> None:
        ready: asyncio.Future[Asgi] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(ready))
        self._inner = await ready

    async def _serve(self, ready: asyncio.Future[Asgi]) -> None:
        """Holds the SDK's task group: it must be entered and left by one task, which no request is."""
        assert self._stop is not None
        try:
            module = await asyncio.to_thread(importlib.import_module, "instantstart.faces.mcp.server")
            async with AsyncExitStack() as stack:
                http = await stack.enter_async_context(self._client())
                face = module.Face(http, self._described)
                ready.set_result(await stack.enter_async_context(module.http_app(face)))
                await self._stop.wait()
        finally:
            if not ready.done():
                ready.cancel()

    async def _described(self) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._describe)

    def _client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=self._app), base_url="http://127.0.0.1", timeout=60.0)
