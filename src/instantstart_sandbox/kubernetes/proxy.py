"""The proxy subresource of pods and services: one HTTP request relayed to the process behind the pod."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.http import Request

_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "host",
     "authorization", "content-length"}
)  # fmt: skip


def unavailable(why: str) -> ApiError:
    """503 when nothing answers behind the pod or service."""
    return ApiError(503, "ServiceUnavailable", why, {})


async def relay(request: Request, address: tuple[str, int], path: str) -> None:
    """Send the request on, and its answer back as it comes (event streams included)."""
    query = request.raw_query.decode()
    url = f"http://{address[0]}:{address[1]}/{path.lstrip('/')}" + (f"?{query}" if query else "")
    headers = {k: v for k, v in request.headers.items() if k not in _HOP}
    body = await request.body()
    # no certificates are read and no proxy is asked for: it is plain HTTP to this machine
    async with httpx2.AsyncClient(timeout=httpx2.Timeout(30, read=None), verify=False, trust_env=False) as client:
        try:
            outgoing = client.build_request(request.method, url, headers=headers, content=body)
            answer = await client.send(outgoing, stream=True)
        except httpx2.TransportError as failure:
            raise unavailable(f"error trying to reach service: {failure}") from failure
        try:
            kept = [(k.encode(), v.encode()) for k, v in answer.headers.items() if k.lower() not in _HOP]
            await request.relay(answer.status_code, kept, _raw(answer))
        finally:
            await answer.aclose()


async def _raw(answer: httpx2.Response) -> AsyncIterator[bytes]:
    async for chunk in answer.aiter_raw():
        yield chunk
