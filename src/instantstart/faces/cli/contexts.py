"""Which server, and with which token: the environment, the chosen context, or the server on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from instantstart.base import problems, settings

URL_VARIABLE = "INSTANTSTART_URL"
TOKEN_VARIABLE = "INSTANTSTART_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class Context:
    """A server and how to sign in. ``source`` says where it was found."""

    url: str
    token: str | None
    source: str


def folder() -> Path:
    """Where contexts are kept: ``$XDG_CONFIG_HOME/instantstart``, usually ``~/.config/instantstart``."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "instantstart"


def _file() -> Path:
    return folder() / "contexts.json"


def load() -> dict[str, Any]:
    """``{"current": name | None, "contexts": {name: {"url", "token"}}}``. Raises Invalid when the file is damaged."""
    try:
        saved = json.loads(_file().read_text(encoding="utf-8"))
        return {"current": saved["current"], "contexts": dict(saved["contexts"])}
    except FileNotFoundError:
        return {"current": None, "contexts": {}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise problems.Invalid("context.damaged", f"{_file()} cannot be read as contexts.", hint="Mend or remove it.") from error


def save(contexts: Mapping[str, Any]) -> None:
    """Write the contexts so that only this user can read them."""
    folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(_file(), json.dumps(contexts, indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` with mode 0600 from its first byte on, in one step."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
    fresh.replace(path)


def write_private_bytes(path: Path, pieces: Iterable[bytes]) -> int:
    """Write what comes in ``pieces`` to ``path``, for this user only and in one step; how many bytes that were."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            size = sum(out.write(piece) for piece in pieces)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return size


def forget_secret() -> str | None:
    """Forget the secret of the current context; its name, or None when none is chosen."""
    known = load()
    current = known["current"]
    if current not in known["contexts"]:
        return None
    known["contexts"][current]["token"] = None
    save(known)
    return str(current)


def remember(name: str, url: str, token: str | None) -> None:
    """Save a context and make it the current one."""
    known = load()
    known["contexts"][name] = {"url": url, "token": token}
    known["current"] = name
    save(known)


def choose(name: str) -> None:
    """Make a saved context the current one. Raises NotFound naming those there are."""
    known = load()
    if name not in known["contexts"]:
        there = ", ".join(sorted(known["contexts"])) or "none"
        raise problems.NotFound("context.unknown", f"There is no context {name}; saved: {there}.", hint="instantstart login")
    known["current"] = name
    save(known)


def resolve() -> Context:
    """The server to speak to. The environment wins, then the current context, then the server of this machine's data folder."""
    local = _local()
    url, token = os.environ.get(URL_VARIABLE), os.environ.get(TOKEN_VARIABLE)
    known = load()
    current = known["contexts"].get(known["current"] or "")
    if url or token:
        fallback = current or {"url": local.url, "token": None}
        return Context(check_url(url or fallback["url"]), token or _token_for(url, (fallback, local)), "environment")
    if current:
        return Context(current["url"], current.get("token"), f"context {known['current']}")
    return local


def _token_for(url: str | None, candidates: tuple[Mapping[str, Any] | Context, ...]) -> str | None:
    """A saved token is only ever sent to the server it was saved for."""
    for each in candidates:
        its_url, token = (each.url, each.token) if isinstance(each, Context) else (each["url"], each.get("token"))
        if token and its_url.rstrip("/") == (url or "").rstrip("/"):
            return str(token)
    return None


def _local() -> Context:
    """The server that runs with this user's data folder: it leaves its address and the first token there."""
    ours = settings.load()
    return Context(_read(ours.data_dir / "address") or f"http://127.0.0.1:{ours.port}", _read(ours.data_dir / "admin-token"), "data folder")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def check_url(url: str) -> str:
    """``url`` without a trailing slash. Raises Invalid when it is no http(s) address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise problems.Invalid("context.url", f"{url!r} is not the address of a server.", hint="For example http://127.0.0.1:3099")
    return url.rstrip("/")
