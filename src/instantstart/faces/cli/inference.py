"""``instantstart endpoint|served|model call ...``: managed endpoints, everything that serves, and asking it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.base import problems, terminal
from instantstart.faces.cli import files, show
from instantstart.faces.cli.agreeing import Yes, begin_agreed
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.placed import Cluster, Contains, Cursor, Limit, Name, Namespace, OnlyNamespace, base, one
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, client
from instantstart.faces.cli.steps import How, Spec, asked, begin
from instantstart.faces.cli.storage import models

endpoints = typer.Typer(help="Managed endpoints: models that the HyperPod inference operator serves.", no_args_is_help=True)
served = typer.Typer(help="Everything that serves a model, whoever made it.", no_args_is_help=True)

Image = Annotated[str | None, typer.Option(help="Image of the server.")]
Words = Annotated[list[str] | None, typer.Option("--arg", help="One word of the server's arguments; may be given again.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="Instance type; may be given again, the most wanted first.")]
Accelerators = Annotated[int | None, typer.Option(help="GPUs (or Neuron devices) of each replica.")]
Replicas = Annotated[int | None, typer.Option(help="Replicas.")]


@endpoints.command("list")
def list_endpoints(
    namespace: OnlyNamespace = None, contains: Contains = None, limit: Limit = 50, cursor: Cursor = None, cluster: Cluster = None,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """List managed endpoints with their replicas, and why one is not ready."""
    with client() as http:
        told = http.get(base(http, cluster, "inference-endpoints"), namespace=namespace, contains=contains, limit=limit, cursor=cursor)
    columns: show.Columns = {
        "NAMESPACE": "namespace", "NAME": "name", "STATE": "state", "READY": lambda e: f"{e['ready']}/{e['replicas']}", "MODEL": "model",
        "TYPE": lambda e: ", ".join(e["instance_types"]), "WHY": "why",
    }  # fmt: skip
    show.page(told, columns, output, empty="No managed endpoints.")


@endpoints.command("get")
def get_endpoint(name: Name, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one endpoint: each link up to its callers, its settings, replicas and events."""
    with client() as http:
        told = http.get(one(http, cluster, "inference-endpoints", (namespace, name)))
    if output is not TABLE:
        show.data(told, output)
        return
    show.thing(told["endpoint"], output)
    show.rows(told["links"], {"LINK": "name", "STATUS": "status", "DETAIL": "detail"}, output)
    if told["differs"]:
        show.rows(told["differs"], {"ROLLED BACK": "setting", "ASKED": "asked", "SERVED": "served"}, output)
        show.note(f"Ask for what is served: instantstart endpoint update {name} -n {namespace} --as-serving")
    show.thing({**told["settings"], "invoke_url": told["invoke_url"], "next_step": told["next_step"]}, output)


@endpoints.command("create")
def create_endpoint(
    name: Name,
    namespace: Namespace = "default",
    image: Image = None,
    arg: Words = None,
    instance_type: Types = None,
    accelerators: Accelerators = None,
    replicas: Replicas = None,
    bucket: Annotated[str | None, typer.Option(help="The model lies in this bucket, below --location.")] = None,
    location: Annotated[str | None, typer.Option(help="Folder of the model.")] = None,
    repository: Annotated[str | None, typer.Option(help="The model is this one of the hub: owner/name.")] = None,
    jumpstart: Annotated[str | None, typer.Option(help="The model is this one of SageMaker JumpStart.")] = None,
    accept_eula: Annotated[bool | None, typer.Option("--accept-eula", help="You accept the licence of a JumpStart model.")] = None,
    sagemaker_endpoint: Annotated[str | None, typer.Option(help="Also register a SageMaker endpoint of this name.")] = None,
    cluster: Cluster = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Serve a model by the inference operator; done when it has answered. Any other setting goes into --file."""
    given = asked(file)
    source = _source(bucket, location, repository, jumpstart) | ({"accept_eula": accept_eula} if accept_eula is not None else {})
    server = asked(None, image=image, args=arg, accelerators=accelerators)
    body = given | asked(
        None, name=name, namespace=namespace, instance_types=instance_type, replicas=replicas, sagemaker_endpoint=sagemaker_endpoint
    )
    body |= _group("source", given, source) | _group("server", given, server)
    with client() as http:
        begin(http, "POST", base(http, cluster, "inference-endpoints"), How(wait, output, dry_run), body)


def _source(bucket: str | None, location: str | None, repository: str | None, jumpstart: str | None) -> dict[str, Any]:
    """Where the model is, by the option that was given."""
    kinds = {"s3": bucket, "huggingface": repository, "jumpstart": jumpstart}
    kind = next((kind for kind, value in kinds.items() if value), None)
    return asked(None, type=kind, bucket=bucket, location=location, repository=repository, model_id=jumpstart)


def _group(name: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """A group of the file with the options over it; nothing when there is neither."""
    told = given.get(name) or {}
    made = {**told, **options} if isinstance(told, Mapping) else told
    return {name: made} if made else {}


@endpoints.command("update")
def update_endpoint(
    name: Name,
    namespace: Namespace = "default",
    image: Image = None,
    arg: Words = None,
    instance_type: Types = None,
    accelerators: Accelerators = None,
    replicas: Replicas = None,
    as_serving: Annotated[bool, typer.Option("--as-serving", help="Alone: ask for what is served now, after a roll-back.")] = False,
    cluster: Cluster = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Change an endpoint; what is left out stays. In --file, null takes a setting away."""
    given = asked(file)
    body = given | asked(None, instance_types=instance_type, replicas=replicas, as_serving=as_serving or None)
    body |= _group("server", given, asked(None, image=image, args=arg, accelerators=accelerators))
    with client() as http:
        begin(http, "PATCH", one(http, cluster, "inference-endpoints", (namespace, name)), How(wait, output, dry_run), body)


@endpoints.command("delete")
def delete_endpoint(
    name: Name, namespace: Namespace = "default", cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """End an endpoint with its replicas, load balancer and SageMaker endpoint."""
    with client() as http:
        path = one(http, cluster, "inference-endpoints", (namespace, name))
        begin_agreed(http, ("DELETE", path), How(wait, output, dry_run), yes)


@served.command("list")
def list_served(
    namespace: OnlyNamespace = None, contains: Contains = None,
    path: Annotated[str | None, typer.Option(help="managed, self_managed or foreign.")] = None,
    limit: Limit = 50, cursor: Cursor = None, cluster: Cluster = None, output: Output = TABLE,
) -> None:  # fmt: skip
    """List everything that serves a model, and in one sentence why something does not."""
    query = {"namespace": namespace, "contains": contains, "path": path, "limit": limit, "cursor": cursor}
    with client() as http:
        told = http.call("GET", base(http, cluster, "served-models"), query=query)
    columns: show.Columns = {
        "NAMESPACE": "namespace", "NAME": "name", "PATH": "path", "PART": "part", "ENGINE": "engine", "STATE": "state",
        "READY": lambda s: f"{s['ready']}/{s['replicas']}", "MODEL": "model", "WHY": "why",
    }  # fmt: skip
    show.page(told, columns, output, empty="Nothing serves a model.")


@served.command("get")
def get_served(name: Name, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one thing that serves: replicas, why one is not ready, events."""
    with client() as http:
        show.thing(http.get(one(http, cluster, "served-models", (namespace, name))), output)


@served.command("metrics")
def get_metrics(name: Name, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show what its servers measure: requests, queue, cache, tokens a second, time to first token."""
    with client() as http:
        told = http.get(one(http, cluster, "served-models", (namespace, name)) + "/metrics")
    columns: show.Columns = {
        "AT": lambda s: show.moment(s["at"]), "REPLICAS": "replicas", "RUNNING": "running", "WAITING": "waiting", "CACHE": "cache",
        "TOKENS/S": "generated_tokens_per_second", "REQUESTS/S": "requests_per_second", "FIRST TOKEN MS": "first_token_ms",
    }  # fmt: skip
    if output is not TABLE:
        show.data(told, output)
        return
    show.rows(told["samples"], columns, output, empty="Nothing is measured yet.")
    if told["trouble"]:
        show.note(told["trouble"])


@models.command("call")
def call_model(
    name: Name,
    prompt: Annotated[str | None, typer.Argument(help="What to ask; - or nothing reads standard input.")] = None,
    namespace: Namespace = "default",
    api: Annotated[str, typer.Option(help="chat, completions, embeddings or json.")] = "chat",
    system: Annotated[str | None, typer.Option(help="chat: what the model is told first.")] = None,
    model: Annotated[str | None, typer.Option(help="What the server calls the model; left out: the first it lists.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens to answer.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Chance in the answer.")] = None,
    path: Annotated[str | None, typer.Option(help="json: path at the server.")] = None,
    method: Annotated[str | None, typer.Option(help="json: GET or POST.")] = None,
    body: Annotated[Path | None, typer.Option(help="File with JSON: what is sent (json), or more fields of the request.")] = None,
    timeout: Annotated[int | None, typer.Option(help="Longest silence of the server, in seconds.")] = None,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Print words as they come.")] = True,
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """Ask a served model. Its words go to standard output as they come; how fast they were, to standard error."""
    ask = asked(
        None, api=api, prompt=_prompt(prompt, api), system=system, model=model, max_tokens=max_tokens, temperature=temperature, path=path,
        method=method, timeout_seconds=timeout, body=files.json_of(body) if body else None,
    )  # fmt: skip
    with client() as http:
        where = one(http, cluster, "served-models", (namespace, name)) + "/calls"
        if stream and output is TABLE:
            raise typer.Exit(_printed(http, where, ask))
        told = http.call("POST", where, body=ask)
    show.data(told, output) if output is not TABLE else _at_once(told)
    raise typer.Exit(0 if told["ok"] else 1)


def _prompt(given: str | None, api: str) -> str | None:
    if api == "json" or (given is not None and given != "-"):
        return given
    if given is None and sys.stdin.isatty():
        return typer.prompt("Prompt", err=True)  # type: ignore[no-any-return]
    read = sys.stdin.read()
    if not read.strip():
        raise problems.Invalid("model_call.prompt", "Nothing is asked: standard input is empty.", hint="Write the question after the name.")
    return read


def _printed(http: Client, path: str, ask: Mapping[str, Any]) -> int:
    """Print a stream; the exit status says whether the model answered."""
    status, lines = 0, False
    for event, data in http.events(path + "/stream", ask):
        if event == "figures":
            sys.stdout.write("\n" if lines else "")
            _figures(data)
            status = status or (1 if int(data.get("status") or 0) >= 400 else 0)
        elif event == "problem":
            raise problems.from_document(data)
        elif event == "answer":
            status = _answer(data)
        else:
            words, wrong = _words(data)
            sys.stdout.write(_safe(words))
            sys.stdout.flush()
            lines = lines or bool(words)
            status = status or wrong
    return status


def _words(data: Any) -> tuple[str, int]:
    """The words of one event of a model, and 1 when it says that something is wrong."""
    if not isinstance(data, Mapping):
        return "", 0
    if data.get("error"):
        show.note(f"The model says: {_safe(str(data['error']))}")
        return "", 1
    found = ""
    for choice in data.get("choices") or ():
        if isinstance(choice, Mapping):
            found += str((choice.get("delta") or {}).get("content") or choice.get("text") or "")
    return found, 0


def _safe(text: str) -> str:
    """Foreign words as a terminal may have them; their lines stay."""
    return "\n".join(terminal.shown(line) for line in text.split("\n"))


def _answer(data: Mapping[str, Any]) -> int:
    """An answer that was no stream."""
    if data.get("error"):
        show.note(f"The model says: {_safe(str(data['error']))}")
        return 1
    text = data.get("text")
    sys.stdout.write((_safe(text) if text else json.dumps(data.get("answer"), indent=2)) + "\n")
    return 0


def _at_once(told: Mapping[str, Any]) -> None:
    _answer(told)
    _figures(told)


def _figures(data: Mapping[str, Any]) -> None:
    """One line: who answered, how long it took, how fast it came."""
    parts = [f"{data.get('model') or 'answered'} on {data.get('replica')}", f"{data['latency_ms']} ms"]
    parts += [f"first token after {data['first_token_ms']} ms"] if data.get("first_token_ms") is not None else []
    parts += [f"{data['completion_tokens']} tokens"] if data.get("completion_tokens") is not None else []
    parts += [f"{data['tokens_per_second']} tokens/s"] if data.get("tokens_per_second") is not None else []
    show.note(", ".join(parts))
