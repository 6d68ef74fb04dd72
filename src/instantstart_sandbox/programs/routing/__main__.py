"""Starts the router."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from urllib.parse import parse_qs, unquote

from ..serving.moments import Moments
from ..serving.web import Request, Response, Server, answer_json, answer_text
from . import gauges
from .arguments import parse, selector
from .discovery import Discovery
from .forwarding import Forwarder, Limits
from .policies import Chooser, Rules
from .pool import Pool

POD_IP = "INSTANTSTART_SANDBOX_POD_IP"
_NOWHERE = ("127.0.0.1", "localhost", "::1")
_FORWARDED = (
    "/generate", "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank", "/rerank", "/v1/responses", "/v1/score",
    "/v1/classify", "/v1/models", "/get_model_info", "/get_server_info", "/health_generate", "/tokenize", "/v1/tokenize", "/invocations",
)  # fmt: skip


class Router:
    """The routes of the router's own port."""

    def __init__(self, given: argparse.Namespace, log: Moments) -> None:
        self._moments = log
        interval = max(float(given.health_check_interval_secs or 60) / log.rate, 0.5)
        self.pool = Pool(given.health_check_endpoint or "/health", interval, self.say)
        rules = Rules()
        for theirs, ours in (
            ("cache_threshold", "threshold"),
            ("balance_abs_threshold", "absolute"),
            ("balance_rel_threshold", "relative"),
        ):
            if getattr(given, theirs) is not None:
                setattr(rules, ours, getattr(given, theirs))
        rules.most = given.max_tree_size or rules.most
        self.chooser = Chooser(given.policy, rules)
        self.counts = gauges.Counts()
        limits = Limits(session_key=os.environ.get("SESSION_KEY", ""))
        limits.tries = 1 if given.disable_retries else given.retry_max_retries or limits.tries
        limits.running = given.max_concurrent_requests if given.max_concurrent_requests is not None else limits.running
        limits.waiting = given.queue_size if given.queue_size is not None else limits.waiting
        self._forward = Forwarder(self.pool, self.chooser, limits, self.counts, self.say)

    def say(self, text: str) -> None:
        """A line of log."""
        sys.stdout.write(f"{self._moments.stamp('%Y-%m-%d %H:%M:%S')}  INFO sglang_router_rs: {text}\n")
        sys.stdout.flush()

    async def __call__(self, request: Request) -> Response:
        """One request."""
        path = request.path.rstrip("/") or "/"
        if path in ("/health", "/liveness"):
            return answer_text("OK")
        if path == "/readiness":
            count = len(self.pool.ready())
            told = {"status": "ready" if count else "not ready", "healthy_workers": count, "total_workers": len(self.pool.workers)}
            return answer_json(told, 200 if count else 503)
        if path == "/list_workers":
            return answer_json({"urls": list(self.pool.workers)})
        if path == "/workers" or path.startswith("/workers/"):
            return self._workers(request, unquote(path.removeprefix("/workers").strip("/")))
        if path in ("/add_worker", "/remove_worker"):
            url = parse_qs(request.query).get("url", [""])[0]
            return self._change(url, path == "/add_worker")
        if path in _FORWARDED:
            return await self._forward(request)
        return answer_json({"error": {"type": "Not Found", "code": "not_found", "message": f"no route for {path}"}}, 404)

    def _workers(self, request: Request, url: str) -> Response:
        if request.method == "POST":
            return self._change(str((request.json() or {}).get("url", "")), True)
        if request.method == "DELETE":
            return self._change(url, False)
        listed = [
            {"id": w.url, "url": w.url, "worker_type": "regular", "is_healthy": w.healthy, "load": w.load, "connection_mode": "HTTP"}
            for w in self.pool.workers.values()
            if url in ("", w.url)
        ]
        return answer_json({"workers": listed, "total": len(listed), "stats": {"regular_count": len(listed)}})

    def _change(self, url: str, come: bool) -> Response:
        if not url.startswith(("http://", "https://")):
            return answer_text("Worker URL required. Provide 'url' query parameter", 400)
        if come:
            self.pool.add(url)
        elif not self.pool.remove(url):
            return answer_text(f"Worker {url} not found", 404)
        return answer_text(f"Successfully {'added' if come else 'removed'} worker: {url}")

    async def metrics(self, request: Request) -> Response:
        """The routes of the metrics' port."""
        if request.path != "/metrics":
            return answer_text("Not Found", 404)
        return answer_text(gauges.page(self.counts, self.pool, self.chooser), kind="text/plain; version=0.0.4; charset=utf-8")


async def serve(given: argparse.Namespace) -> int:
    """Find workers and forward until told to end."""
    router, stop = Router(given, Moments()), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    servers = [Server(router, lambda *_: None), Server(router.metrics, lambda *_: None)]
    places = ((given.host or "127.0.0.1", given.port or 30000), (given.prometheus_host or "0.0.0.0", given.prometheus_port or 29000))
    router.say(f"Starting router on {places[0][0]}:{places[0][1]} | policy: {given.policy} | (the sandbox's own small router)")
    try:
        for server, (host, port) in zip(servers, places, strict=True):
            own = os.environ.get(POD_IP, "127.0.0.1")
            hidden = host in _NOWHERE and own not in _NOWHERE
            await server.listen("127.0.0.1" if hidden else own, 0 if hidden else port)
    except OSError as failure:
        router.say(f"ERROR: Failed to bind: {failure}")
        return 1
    for url in given.worker_urls:
        router.pool.add(url)
    finding = None
    if given.service_discovery:
        wanted = selector(given.selector)
        router.say(f"Starting Kubernetes service discovery | selector: {wanted} | namespace: {given.service_discovery_namespace or 'all'}")
        place = (given.service_discovery_namespace, given.service_discovery_port or 80)
        finding = asyncio.create_task(Discovery(router.pool, wanted, *place, router.say).run())
    await stop.wait()
    if finding is not None:
        finding.cancel()
    await asyncio.gather(*(server.end() for server in servers))
    return 0


def main(words: list[str] | None = None) -> int:
    """Run what the words ask for; 2 for words that cannot be read."""
    given = sys.argv[1:] if words is None else words
    rest = given[1:]
    if given and given[0].rpartition("/")[2].startswith("python"):
        while rest and rest[0] != "-m":
            rest = rest[1:]
        rest = rest[2:]
    if rest[:1] == ["launch"]:
        rest = rest[1:]
    return asyncio.run(serve(parse(rest)))


if __name__ == "__main__":
    sys.exit(main())
