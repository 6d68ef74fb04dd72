"""Load balancers that answer: a request whose Host is the name of a load balancer is sent on to what stands behind it.

The names do not resolve (they are AWS's own); ``curl --connect-to ::127.0.0.1:<port>`` or a Host header leads here. The port in the Host
header chooses the Service's port, else its first one is taken. Source ranges are kept in the security group and not enforced: every
caller is this machine.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services import inference, load_balancers

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
_PATIENCE_SECONDS, _PIECE = 120.0, 1 << 16
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


def install(world: World) -> None:
    """Take the requests."""
    world.gateway.balancers = Balancers(world)


class Balancers:
    """The WSGI application."""

    def __init__(self, world: World) -> None:
        self._world = world

    def wants(self, environ: Environ) -> bool:
        """Whether the Host is a load balancer's."""
        host = str(environ.get("HTTP_HOST", "")).partition(":")[0]
        return ".elb." in host and load_balancers.target(self._world, host) is not None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI: one request, its answer passed back as it comes."""
        host, _, port = str(environ.get("HTTP_HOST", "")).partition(":")
        found = load_balancers.target(self._world, host)
        address = self._address(*found, port) if found is not None else None
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        if address is None:
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        link = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
        try:
            link.request(
                environ["REQUEST_METHOD"], str(environ.get("REQUEST_URI") or environ.get("PATH_INFO", "/")), body, _headers(environ)
            )
            answer = link.getresponse()
        except (OSError, http.client.HTTPException):
            link.close()
            start_response("502 Bad Gateway", [("Content-Length", "0")])
            return [b""]
        start_response(f"{answer.status} {answer.reason}", [(k, v) for k, v in answer.getheaders() if k.lower() not in _HOP])
        return _pieces(link, answer)

    def _address(self, cluster: str, service: str, port: str) -> tuple[str, int] | None:
        server: Any = self._world.kubernetes
        try:
            found = server.cluster(cluster)
        except (AttributeError, KeyError):
            return None
        namespace, _, name = service.rpartition("/")
        if namespace.startswith("ingress/"):
            namespace = namespace.removeprefix("ingress/")
            ingress = found.read("ingresses.networking.k8s.io", name, namespace) or {"spec": {}}
            backends = [p["backend"]["service"] for r in ingress["spec"].get("rules") or [] for p in r["http"]["paths"]]
            if not backends:
                return None
            name, port = backends[0]["name"], str(backends[0]["port"].get("number", ""))
        whole = found.read("services", name, namespace)
        ports = [str(p["port"]) for p in ((whole or {}).get("spec") or {}).get("ports") or []]
        if not ports or found.backend is None:
            return None
        chosen = port if port in ports else ports[0]
        return inference.address(self._world, cluster, namespace, name, chosen)


def _headers(environ: Environ) -> dict[str, str]:
    found = {k[5:].replace("_", "-").title(): str(v) for k, v in environ.items() if k.startswith("HTTP_")}
    if environ.get("CONTENT_TYPE"):
        found["Content-Type"] = environ["CONTENT_TYPE"]
    return {k: v for k, v in found.items() if k.lower() not in _HOP}


def _pieces(link: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while piece := answer.read1(_PIECE):
            yield piece
    finally:
        link.close()
