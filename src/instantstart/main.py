"""The composition root: settings -> clients -> engine -> app. Imports every room, is imported by none.

Nothing heavy is imported before it is needed: ``instantstart cluster list`` loads the command line only.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import datetime as dt
import gc
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

import instantstart
from instantstart.base import log, problems, settings, tracing
from instantstart.base.settings import Settings
from instantstart.faces.cli.contexts import write_private

if TYPE_CHECKING:
    from fastapi import FastAPI

    from instantstart.capabilities.room import Room

#: seconds that open requests and streams get to end after a signal
GRACE_SECONDS = 5
#: parameters of mallopt(3)
_M_TRIM_THRESHOLD, _M_ARENA_MAX = -1, -8
#: connections, and what the engine, the database and the clusters take beside them
_FILES = 16384
ADMIN_FILE = "admin-token"
ADDRESS_FILE = "address"


def cli() -> None:
    """The ``instantstart`` command. The command line knows only HTTP; what starts a process is handed to it from here."""
    from instantstart.faces.cli import main as face

    face.main(face.Launchers(serve=serve, mcp=mcp, keeper=Keeper()))


class Keeper:
    """``instantstart database``: backups of the embedded database. Raises Invalid where PostgreSQL keeps it."""

    def back_up(self, file: Path, data_dir: Path | None, force: bool) -> dict[str, object]:
        """Write a backup; what it is."""
        from instantstart.store import backups

        made = backups.back_up(self._folder(data_dir), file, dt.datetime.now(dt.UTC), overwrite=force)
        return {"file": str(made.path), "at": made.at.isoformat(timespec="seconds"), "schema": made.schema, "size_bytes": made.size_bytes}

    def restore(self, file: Path, data_dir: Path | None) -> dict[str, object]:
        """Put one back; where the old files are kept."""
        from instantstart.store import backups

        folder = self._folder(data_dir)
        kept = backups.restore(file, folder)
        return {"restored": str(folder), "old_files": str(kept) if kept else "none"}

    def _folder(self, data_dir: Path | None) -> Path:
        chosen = settings.load()
        if chosen.database_url:
            raise problems.Invalid(
                "backup.not_embedded",
                "The database is PostgreSQL's (INSTANTSTART_DATABASE_URL).",
                hint="Back it up there: pg_dump, or the snapshots of its service.",
            )
        return data_dir or chosen.data_dir


def compose(chosen: Settings) -> Room:
    """Every room around one store, bound and not yet launched. Raises Problems for what a person must set right."""
    from instantstart import store
    from instantstart.aws import tokens
    from instantstart.aws.session import AwsGateway
    from instantstart.base.clock import Clock
    from instantstart.capabilities.room import Room
    from instantstart.capabilities.workflows import WORKFLOWS
    from instantstart.ensure.installs import bundles
    from instantstart.hub.client import Hub
    from instantstart.kube.connect import KubeGateway
    from instantstart.operations.engine import Engine

    clock = Clock(chosen.clock_rate)
    opened = store.open(chosen.database_url, chosen.data_dir)
    aws = AwsGateway(chosen.region)
    kube = KubeGateway(lambda ref: tokens.make(aws.region(ref.region), ref.name), clock, lambda: aws.region().identity().principal_arn)
    engine = Engine(opened, clock, chosen, WORKFLOWS)
    room = Room(chosen, clock, opened, aws, kube, bundles.load(chosen.bundles_dir), engine, Hub(chosen.hub_url))
    engine.bind(room)
    return room


def application(room: Room) -> FastAPI:
    """The web application of ``room``: the API with every slice, and MCP beside it. The engine is the caller's to launch."""
    from instantstart.capabilities.routes import ROUTERS
    from instantstart.faces.api.app import build
    from instantstart.faces.mcp.mount import Mount

    mount = Mount()
    app = build(room, ROUTERS, mounts={"/mcp": mount}, lifespans=[mount.lifespan])
    mount.connect(app, app.openapi)
    return app


def serve(given: Mapping[str, Any]) -> int:
    """Run the control plane until a signal. ``given`` overrides settings by name. Returns the exit status."""
    from instantstart.capabilities.pool_keeper import PoolKeeper
    from instantstart.capabilities.watchman import Watchman

    chosen = with_given(settings.load(), given)
    log.configure(chosen.log_level, chosen.log_format)
    tracing.configure(chosen.otlp_endpoint, chosen.trace_ratio, version=instantstart.__version__, replica=chosen.replica_id)
    os.umask(0o077)
    _keep_little()
    _may_open_many()
    gc.disable()  # until all is imported: nothing of it is garbage, and starting takes a tenth less
    listening = listen(chosen.host, chosen.port)
    with contextlib.closing(listening):
        room = compose(chosen)
        background = (Watchman(room), PoolKeeper(room))
        try:
            room.engine.launch()  # before the server, so that a folder in use is told as a Problem
            for each in background:
                each.start()
            return _run(room, application(room), listening)
        finally:
            _hear_no_more()
            for each in background:
                each.stop()
            room.engine.shutdown()
            room.kube.close()
            room.store.close()
            tracing.close()


def _hear_no_more() -> None:
    """A second SIGTERM must not cut off what an act in flight still has to write down; an orchestrator's SIGKILL follows anyway."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _keep_little() -> None:
    """Tell glibc to give freed memory back: by itself it keeps a heap for each of our threads, a dozen MiB in all."""
    with contextlib.suppress(OSError, AttributeError):  # another C library keeps its own ways
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_ARENA_MAX, 2)
        libc.mallopt(_M_TRIM_THRESHOLD, 64 * 1024)


def _may_open_many() -> None:
    """Each connection is a file; where the system would let us have more than the usual 1,024, take them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # forbidden by a sandbox of the system's: then as many as there are
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def with_given(loaded: Settings, given: Mapping[str, Any]) -> Settings:
    """``loaded`` with what the command line said. Raises Invalid naming the option."""
    try:
        return Settings.model_validate(loaded.model_dump() | {name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise settings.wrong(error, {name: f"--{name.replace('_', '-')}" for name in Settings.model_fields}) from error


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises Conflict when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise problems.Conflict(
            "server.port_taken",
            f"{host}:{port} cannot be listened on: {error.strerror}.",
            hint="Choose another with --port; 0 takes a free one.",
        ) from error
    return made


def _run(room: Room, app: FastAPI, listening: socket.socket) -> int:
    import uvicorn

    from instantstart.faces.api import crowd, wire

    class Server(uvicorn.Server):
        """uvicorn that says when it is ready, whose signals end it with status 0, and that serves on while a balancer turns away."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            gc.freeze()
            gc.enable()
            if not self.should_exit:
                _welcome(room, listening)
                threading.Thread(target=room.aws.warm, name="warm", daemon=True).start()

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if sig == signal.SIGINT and self.should_exit:
                self.force_exit = True
            drain = room.settings.drain_seconds
            if sig == signal.SIGTERM and drain and not app.state.stopping:
                threading.Timer(drain, self._end).start()
            else:
                self.should_exit = True
            app.state.stopping = True

        def _end(self) -> None:
            self.should_exit = True

    proxies = [each.strip() for each in room.settings.trusted_proxies.split(",") if each.strip()]
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=GRACE_SECONDS, ws_max_size=65536,
        proxy_headers=bool(proxies), forwarded_allow_ips=proxies,
        http=wire.within(crowd.of_settings(room.settings)),
    )  # fmt: skip
    server = Server(config)
    server.run(sockets=[listening])
    return 0 if server.started else 1


def _welcome(room: Room, listening: socket.socket) -> None:
    """Tell where the console is, with a one-time sign-in link; leave the address for the command line of this machine."""
    host, port = listening.getsockname()[:2]
    url = f"http://{_reachable(host)}:{port}"
    folder = room.settings.data_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / ADDRESS_FILE, url + "\n")
    admin = first_admin(room)
    lines = [f"InstantStart is ready: {url}"]
    if admin is not None:
        code = room.store.identities.create_code(admin)
        lines.append(f"Sign in once, within 10 minutes: {url}/login#code={code}")
    lines.append(f"Administrator's token: {_where_token(room, admin)}")
    if host not in ("127.0.0.1", "::1"):
        lines.append(f"Listening on {host} without TLS: put a proxy that adds it in front, and name it in INSTANTSTART_ALLOWED_HOSTS.")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _reachable(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _where_token(room: Room, admin: str | None) -> str:
    file = room.settings.data_dir / ADMIN_FILE
    given = settings.given_admin_token(room.settings)
    if given and room.store.identities.find_token(given):
        return "the one that the settings give (INSTANTSTART_ADMIN_TOKEN)"
    return str(file) if admin else "not in this folder; sign in with one of yours"


def first_admin(room: Room) -> str | None:
    """The administrator whose token the settings give, else the identity behind the token in the data folder.

    The latter is made, with its file, where no administrator could enter with a token.
    That is so at the first start, and when the last token of an administrator has run out: who can start the server can then enter again.
    None when the file is gone or its token has ended: then an administrator signs in with a token of their own.
    """
    path = room.settings.data_dir / ADMIN_FILE
    identities = room.store.identities
    with room.store.transaction(lock="first-admin"):
        given = settings.given_admin_token(room.settings)
        if given and (known := identities.given(given)):
            return known.id
        if not identities.has_administrator():
            identity, token = identities.create_token("administrator", "admin", "person")
            write_private(path, token + "\n")
            return identity.id
    try:
        found = identities.find_token(path.read_text(encoding="utf-8").strip())
    except OSError:
        return None
    return found.id if found else None


def mcp(url: str, token: str | None, toolsets: str | None) -> int:
    """Serve MCP on standard input and output for the control plane at ``url``."""
    log.configure("WARNING")
    from instantstart.faces.mcp import catalog, server

    wanted = catalog.parse_toolsets(toolsets)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.stdio(url, token, wanted))
    return 0
