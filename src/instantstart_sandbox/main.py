"""The sandbox's composition root and command line: ``instantstart-sandbox serve`` and ``instantstart-sandbox admin``."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from instantstart_sandbox.compose import Sandbox, build
from instantstart_sandbox.services import hub
from instantstart_sandbox.services.hyperpod import scenarios
from instantstart_sandbox.world import admin as world_admin
from instantstart_sandbox.world.state import DEFAULT_REGION

#: a sandbox that runs knows those of its services, too
VERBS = {**world_admin.VERBS, **scenarios.VERBS, **hub.STEERING}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    options = _parser().parse_args(argv)
    result: int = options.run(options)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="instantstart-sandbox", description="An AWS region and its Kubernetes clusters on this machine.")
    commands = parser.add_subparsers(required=True, metavar="serve|admin")
    serve = commands.add_parser("serve", help="run the sandbox in the foreground until SIGTERM or SIGINT")
    serve.add_argument("--port", type=int, default=4599, help="port on 127.0.0.1 (default 4599; 0: a free one)")
    serve.add_argument("--data", type=Path, required=True, help="folder of the saved state and of credentials.json")
    serve.add_argument("--rate", type=float, default=None, help="virtual seconds for each real second (default 12, or as saved)")
    serve.add_argument("--region", default=DEFAULT_REGION, help=f"the default region (default {DEFAULT_REGION})")
    serve.add_argument("--settings", type=Path, help="JSON file of {setting: value}")
    serve.set_defaults(run=_serve)
    admin = commands.add_parser("admin", help="steer a running sandbox", epilog=f"verbs: {', '.join(sorted({n for _, n in VERBS}))}")
    admin.add_argument("--endpoint", default=os.environ.get("AWS_ENDPOINT_URL", "http://127.0.0.1:4599"))
    admin.add_argument("verb", choices=sorted({name for _, name in VERBS}))
    admin.add_argument("values", nargs="*", help="name=value pairs (values are JSON or text), e.g. seconds=600")
    admin.set_defaults(run=_admin)
    return parser


def _serve(options: argparse.Namespace) -> int:
    try:
        _held = _hold(options.data)
        sandbox = build(options.data, region=options.region, rate=options.rate, settings_file=options.settings)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"The sandbox cannot start: {error}\n")
        return 1
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        endpoint = sandbox.start(options.port)
    except OSError as error:
        sys.stderr.write(f"The sandbox cannot listen on 127.0.0.1:{options.port}: {error}\n")
        sandbox.stop()
        return 1
    _say({"endpoint": endpoint, "ready": True, "data": str(options.data), "rate": sandbox.world.clock.rate, "pid": os.getpid()})
    threading.Thread(target=sandbox.warm, name="warm", daemon=True).start()
    _wait(stopping)
    sandbox.stop()
    return 0


def _hold(data: Path) -> IO[str]:
    """The folder for this process alone, until it ends: two sandboxes would write over one another's state. Raises OSError."""
    data.mkdir(parents=True, exist_ok=True)
    lock = (data / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise OSError(f"another sandbox runs with the data in {data}; end it, or choose another folder") from error
    return lock


def _wait(stopping: threading.Event) -> None:
    while not stopping.wait(0.5):
        pass


def _admin(options: argparse.Namespace) -> int:
    body = {}
    for pair in options.values:
        name, equals, text = pair.partition("=")
        if not equals:
            sys.stderr.write(f"{pair!r} is not name=value\n")
            return 2
        try:
            body[name] = json.loads(text)
        except ValueError:
            body[name] = text
    method = "POST" if ("POST", options.verb) in VERBS and (body or ("GET", options.verb) not in VERBS) else "GET"
    if options.verb == "faults" and body.pop("clear", None):
        method = "DELETE"
    return _call(method, f"{options.endpoint.rstrip('/')}/_sandbox/{options.verb}", body)


def _call(method: str, url: str, body: dict[str, object]) -> int:
    query = "&".join(f"{name}={value}" for name, value in body.items()) if method == "GET" else ""
    request = urllib.request.Request(  # noqa: S310 - the endpoint is the user's own argument
        f"{url}?{query}" if query else url, data=json.dumps(body).encode() if method == "POST" else None, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=600) as reply:  # noqa: S310
            _say(json.load(reply))
            return 0
    except urllib.error.HTTPError as error:
        sys.stderr.write(error.read().decode() + "\n")
    except urllib.error.URLError as error:
        sys.stderr.write(f"No sandbox answers at {url}: {error.reason}\n")
    return 1


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


__all__ = ["Sandbox", "main"]
