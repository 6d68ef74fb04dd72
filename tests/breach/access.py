"""Who may do what, through which face: every route, tool and command asked of a running server by every kind of caller.

``python -m tests.breach.access`` asks and writes the table ``access_matrix.tsv`` anew; its difference is what a reviewer reads.
Nothing that is asked is complete: what is let through the door ends as 404 (no such cluster) or 422 (fields missing).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import typer
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.breach.ground import Ground, standing

from instantstart.faces.cli import main as cli
from instantstart.faces.cli import session
from instantstart.faces.mcp import catalog

TABLE = Path(__file__).parent / "access_matrix.tsv"
#: who asks: a role and a kind; and those who are nobody (any more)
ROLES = {
    "viewer": ("viewer", "person"),
    "viewer-agent": ("viewer", "agent"),
    "operator": ("operator", "person"),
    "operator-agent": ("operator", "agent"),
    "admin": ("admin", "person"),
}
NOBODIES = ("anonymous", "revoked", "made-up")
CALLERS = (*NOBODIES, *ROLES)
#: the callers whose commands are run: the command line has no door of its own, only the token that it is given
COMMANDERS = ("viewer", "operator", "operator-agent", "admin")
#: refused because of who asks, and not because of what is asked
_REFUSALS = frozenset(
    {"identity.missing", "identity.token_unknown", "identity.role_too_low", "identity.agent", "identity.ended", "approval.needs_person"}
    | {"request.origin_missing", "request.origin_unknown"}
)
#: commands that are no calls of the server, or that end it
LOCAL = frozenset({"serve", "mcp", "demo", "login", "agent config", "support bundle"})
_LOCAL_GROUPS = ("database", "context")
_NOWHERE, _NOBODY = "nowhere", "op-none"
Rows = dict[str, dict[str, str]]


def tokens(ground: Ground) -> dict[str, str | None]:
    """A token of every caller. Nobody has none; one was revoked; one never was."""
    made: dict[str, str | None] = {name: ground.token(*role) for name, role in ROLES.items()}
    ended = ground.make_token("admin")
    ground.plane.call("DELETE", f"/tokens/{ended['identity']['id']}")
    return {"anonymous": None, "revoked": str(ended["token"]), "made-up": "ist_" + "A" * 43, **made}


def verdict(status: int, code: str) -> str:
    """``yes``: let through the door, whatever was said behind it."""
    if code in _REFUSALS or status == 401 or (status == 429 and code == "request.too_many"):
        return "no"
    assert status != 403 or code.startswith("object.") or not code.startswith("identity."), (status, code)
    return "yes"


def by_rest(ground: Ground, document: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every described route."""
    with httpx2.Client(base_url=ground.url, headers=dict(headers), timeout=60) as http:
        for path, methods in document["paths"].items():
            for method, told in methods.items():
                answer = http.request(method, _filled(path), json={"breach": 1} if "requestBody" in told else None)
                yield f"rest {told['operationId']}", verdict(answer.status_code, _code(answer))


def _filled(path: str) -> str:
    known = {"cluster": _NOWHERE, "operation_id": _NOBODY, "kind": "pytorch" if "training-jobs" in path else "tracking_server"}
    return re.sub(r"\{(\w+)\}", lambda match: known.get(match[1], "nobody"), path)


def _code(answer: httpx2.Response) -> str:
    media = answer.headers.get("content-type", "")
    return str(answer.json().get("code", "")) if "problem+json" in media else ""


def by_tools(ground: Ground, token: str) -> dict[str, str]:
    """Every tool of the catalogue, over MCP."""
    told: dict[str, str] = {}

    async def ask() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{ground.url}/mcp?toolsets=all", http_client=http)) as client,
        ):
            takes = {tool.name: dict(tool.input_schema.get("properties", {})) for tool in (await client.list_tools()).tools}
            for tool in catalog.TOOLS:
                arguments = _spoiled(takes[tool.name])
                document = (await client.call_tool(tool.name, arguments)).structured_content or {}
                if document.get("code") == "request.invalid" and "required" in str(document):
                    arguments |= {f["pointer"][1:]: "nobody" for f in document["fields"]}
                    document = (await client.call_tool(tool.name, arguments)).structured_content or {}
                told[f"mcp {tool.name}"] = verdict(0, str(document.get("code", "")))

    anyio.run(ask)
    return told


def _spoiled(takes: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that no tool of these would act on: a cluster that is none, and a value of a wrong type. The role is judged before them."""
    where = {"cluster": _NOWHERE} if "cluster" in takes else {}
    simple = [name for name, told in takes.items() if name != "cluster" and told.get("type") in ("string", "integer", "boolean", "array")]
    return where | {name: {"breach": 1} for name in simple[:1]}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the command line by its words."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                yield from walk(inner, (*words, name))
        else:
            yield " ".join(words), command

    yield from walk(typer.main.get_command(cli.app), ())


def is_local(words: str) -> bool:
    """Whether a command speaks to no server."""
    return words in LOCAL or words.split()[0] in _LOCAL_GROUPS


#: what a command's required values may be called, and what is said there; the rest is "nobody"
_SAID = {
    "cluster": _NOWHERE, "count": "1", "replicas": "1", "workers": "1", "fee": "1", "worker": "1", "operation_id": _NOBODY,
    "operation": _NOBODY, "feature": "karpenter", "features": "karpenter", "instance_type": "ml.g5.xlarge", "nodes": "i-0123456789abcdef0",
    "repository": "some/model", "image": "nobody:1", "role": "viewer", "to": "nobody", "log": os.devnull,
}  # fmt: skip
#: what else a command needs to come as far as the door
_MORE = {
    "cluster create": ("--zone", "usw2-az1", "--type", "ml.g5.xlarge"),
    "cluster import": ("nobody",),
    "mlflow share": ("--to", "111122223333"),
    "model call": ("hello",),
    "token update": ("--note", "x"),
}


def line_of(words: str, command: Any) -> list[str]:
    """The command line of a command: its required values, nothing that would be done, the answer as JSON."""
    line, options = words.split(), []
    for each in command.params:
        said = _SAID.get(each.name, "nobody")
        if each.required or each.name == "cluster":
            options += [said] if each.param_type_name == "argument" else [each.opts[0], said]
        elif each.name == "tag" and each.param_type_name == "option":
            options += [each.opts[0], _NOWHERE]
        elif each.name in ("dry_run", "yes"):
            options.append(each.opts[0])
        elif each.name == "output":
            options += [each.opts[0], "json"]
    return [*line, *options, *_MORE.get(words, ())]


class Listening(httpx2.HTTPTransport):
    """A connection that notes what the server said to a command."""

    def __init__(self) -> None:
        super().__init__(verify=False)  # loading the certificates of the world takes longer than the question
        self.codes: list[str] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Ask, and note the code of a refusal."""
        answer = super().handle_request(request)
        answer.read()
        self.codes.append(_code(answer))
        return answer


def by_commands(ground: Ground, token: str | None) -> Iterator[tuple[str, str]]:
    """Every command that speaks to the server. ``unasked``: it ended before it did."""
    said = {"INSTANTSTART_URL": ground.url, "INSTANTSTART_TOKEN": token or "", "XDG_CONFIG_HOME": str(ground.plane.folder / "none")}
    before = {name: os.environ.get(name) for name in said}
    make, made = typer.main.get_command, typer.main.get_command(cli.app)
    os.environ.update(said)
    typer.main.get_command = lambda typer_instance: made  # it is built anew for each line otherwise
    try:
        for words, command in commands():
            if not is_local(words):
                yield f"cli {words}", _run(line_of(words, command))
    finally:
        typer.main.get_command = make
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _run(line: list[str]) -> str:
    heard = session.transport = Listening()
    kept, sys.stdin = sys.stdin, io.StringIO("hf_nothing\n")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as told:
            cli.run(line)
    finally:
        sys.stdin, session.transport = kept, None
    assert "Traceback" not in told.getvalue()
    if not heard.codes:
        return f"unasked {told.getvalue()[-300:]}"
    return "no" if set(heard.codes) & _REFUSALS else "yes"


def asked(ground: Ground, *, whole: bool = True) -> Rows:
    """The matrix as the running server answers it. Not ``whole``: every route by everybody, and tools by the two lowest of agents."""
    rows: Rows = {}
    document = ground.plane.document()
    for caller, token in tokens(ground).items():
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        found = list(by_rest(ground, document, headers))
        if whole and caller in COMMANDERS:
            found += by_commands(ground, token)
        if caller in (ROLES if whole else ("viewer-agent", "operator-agent")):
            found += by_tools(ground, str(token)).items()
        elif caller in NOBODIES:  # the transport itself is closed to them
            found += [(f"mcp {tool.name}", "no") for tool in catalog.TOOLS]
        for row, answer in found:
            rows.setdefault(row, {})[caller] = answer
    return rows


def written(rows: Rows) -> str:
    """The matrix as the file holds it. ``asks``: an agent may ask for it, and a person decides."""
    lines = ["\t".join(("face and name", *CALLERS))]
    for name in sorted(rows):
        answers = dict.fromkeys(CALLERS, "-") | rows[name]
        for role in ("viewer", "operator"):
            if answers[f"{role}-agent"] == "yes" and answers[role] == "no":
                answers[f"{role}-agent"] = "asks"
        lines.append("\t".join((name, *(answers[caller] for caller in CALLERS))))
    return "\n".join(lines) + "\n"


def outdated(kept: Rows, seen: Rows) -> list[str]:
    """Where the server answered otherwise than the table says; ``asks`` is a yes at the door."""
    said = {"asks": "yes"}
    return [
        f"{name}, {caller}: {answer} instead of {kept.get(name, {}).get(caller, 'no line')}"
        for name, answers in sorted(seen.items())
        for caller, answer in answers.items()
        if said.get(kept.get(name, {}).get(caller, ""), kept.get(name, {}).get(caller)) != answer
    ]


def read(text: str) -> Rows:
    """A written matrix."""
    head, *lines = (line.split("\t") for line in text.splitlines())
    return {line[0]: dict(zip(head[1:], line[1:], strict=True)) for line in lines}


def differences(kept: Rows, seen: Rows) -> Iterable[str]:
    """What a reviewer must look at."""
    for name in sorted({*kept, *seen}):
        if name not in kept:
            yield f"{name} is not classified: run python -m tests.breach.access and look at its line"
        elif name not in seen:
            yield f"{name} is not there any more"
        elif kept[name] != seen[name]:
            yield f"{name}: " + ", ".join(
                f"{c} {kept[name][c]} -> {seen[name].get(c)}" for c in kept[name] if kept[name][c] != seen[name].get(c)
            )


def main() -> int:
    """Ask, and write the table."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the processes end with us
    with tempfile.TemporaryDirectory() as folder, standing(Path(folder), cluster=False) as ground:
        text = written(asked(ground))
        kept = TABLE.read_text() if TABLE.exists() else written({})
        TABLE.write_text(text)
    sys.stdout.writelines(f"{line}\n" for line in differences(read(kept), read(text)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
