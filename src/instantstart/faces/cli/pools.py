"""``instantstart pool ...``: warm workers, whom they work for, and the Services of businesses."""

from __future__ import annotations

from typing import Annotated

import typer

from instantstart.faces.cli import placed, serving, show
from instantstart.faces.cli.agreeing import Yes, begin_agreed
from instantstart.faces.cli.paths import part
from instantstart.faces.cli.placed import Cluster, Cursor, Limit, Name, Namespace, OnlyNamespace
from instantstart.faces.cli.serving import (
    CommandFile,
    Cpu,
    Engine,
    Env,
    Gpus,
    Group,
    Image,
    Memory,
    Model,
    NewName,
    Port,
    TokenSecret,
    Types,
    Volume,
    Words,
)  # fmt: skip
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, client
from instantstart.faces.cli.steps import How, Spec, asked, begin

app = serving.pools
_WHAT = "model-pools"
Worker = Annotated[str, typer.Argument(help="Name of the worker.")]
Business = Annotated[str, typer.Argument(help="The business.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Workers, free and bound together.")]


@app.command("list")
def list_pools(
    namespace: OnlyNamespace = None, limit: Limit = 20, cursor: Cursor = None, cluster: Cluster = None, output: Output = TABLE
) -> None:
    """List pools: how many workers are free, and what is not as it should be."""
    with client() as http:
        told = http.get(placed.base(http, cluster, _WHAT), namespace=namespace, limit=limit, cursor=cursor)
    columns: show.Columns = {
        "NAMESPACE": "namespace", "NAME": "name", "READY": lambda p: f"{p['ready']}/{p['size']}", "FREE": "free",
        "BUSINESSES": lambda p: ", ".join(f"{b['business']} {b['bound']}/{b['workers']}" for b in p["bindings"]), "MODEL": "model",
        "WARNINGS": lambda p: " ".join(p["warnings"]),
    }  # fmt: skip
    show.page(told, columns, output, empty="No model pools.")


@app.command("get")
def get_pool(name: Name, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show the workers of a pool by whom they work for; --output json tells everything."""
    with client() as http:
        told = http.get(placed.one(http, cluster, _WHAT, (namespace, name)))
    if output is not TABLE:
        show.data(told, output)
        return
    columns: show.Columns = {
        "BUSINESS": "business", "NAME": "name", "READY": "ready", "LEAVING": "leaving", "NODE": "node", "WHY": "why",
    }  # fmt: skip
    show.rows(told["item"]["workers"], columns, output, empty="No workers.")
    for warning in told["item"]["warnings"]:
        show.note(warning)


@app.command("create")
def create_pool(
    words: Words = None, command_file: CommandFile = None, name: NewName = None, namespace: Namespace = "default", engine: Engine = None,
    model: Model = None, image: Image = None, gpus: Gpus = None, workers: Workers = None, types: Types = None, group: Group = None,
    cpu: Cpu = None, memory: Memory = None, env: Env = None, token_secret: TokenSecret = None, volume: Volume = None, port: Port = None,
    cluster: Cluster = None, file: Spec = None, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE,
) -> None:  # fmt: skip
    """Make a pool: pool create --name warm --gpus 1 --workers 4 -- python3 -m sglang.launch_server --model-path ORG/MODEL."""
    body = asked(
        file, **serving.command_of(words, command_file), name=name, namespace=namespace, engine=engine, model=model, image=image, gpus=gpus,
        workers=workers, instance_types=types, instance_group=group, cpu=cpu, memory=memory, env=serving.pairs(env),
        token_secret=token_secret, volumes=serving.mounts(volume), port=port,
    )  # fmt: skip
    with client() as http:
        begin(http, "POST", placed.base(http, cluster, _WHAT), How(wait, output, dry_run), body)


@app.command("scale")
def scale_pool(
    name: Name, workers: Annotated[int, typer.Argument(help="Workers, free and bound together.")], namespace: Namespace = "default",
    cluster: Cluster = None, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE,
) -> None:  # fmt: skip
    """Set the number of workers. Only free ones go."""
    with client() as http:
        path = placed.one(http, cluster, _WHAT, (namespace, name)) + "/scale"
        begin(http, "POST", path, How(wait, output, dry_run), {"workers": workers})


@app.command("delete")
def delete_pool(
    name: Name, namespace: Namespace = "default", cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """Delete a pool that nobody is bound to."""
    with client() as http:
        begin_agreed(http, ("DELETE", placed.one(http, cluster, _WHAT, (namespace, name))), How(wait, output, dry_run), yes)


@app.command("assign")
def assign(
    name: Name, worker: Worker, business: Business,
    expected: Annotated[str | None, typer.Option(help="Whom it is believed to work for now; left out: nobody.")] = None,
    namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE,
) -> None:  # fmt: skip
    """Give a worker to a business, at once."""
    body = asked(None, worker=worker, business=business, expected=expected)
    with client() as http:
        told = http.call("POST", placed.one(http, cluster, _WHAT, (namespace, name)) + "/assign", body=body)
    _say(told, output)


@app.command("release")
def release(
    name: Name, worker: Worker, business: Business, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE
) -> None:
    """Take a worker back from a business, at once."""
    with client() as http:
        path = placed.one(http, cluster, _WHAT, (namespace, name)) + "/release"
        told = http.call("POST", path, body={"worker": worker, "business": business})
    _say(told, output)


def _say(told: dict[str, object], output: show.Format) -> None:
    if output is not TABLE:
        show.data(told, output)
        return
    already = "" if told["changed"] else " already"
    show.note(f"{told['worker']} works for {told['business']}{already}.")


@app.command("bind")
def bind(
    name: Name, business: Business, workers: Annotated[int | None, typer.Option("--workers", help="Free workers to give it now.")] = None,
    namespace: Namespace = "default", cluster: Cluster = None, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE,
) -> None:  # fmt: skip
    """Make the Service of a business, with free workers."""
    with client() as http:
        path = placed.one(http, cluster, _WHAT, (namespace, name)) + "/bindings"
        begin(http, "POST", path, How(wait, output, dry_run), asked(None, business=business, workers=workers))


@app.command("unbind")
def unbind(
    name: Name, business: Business, namespace: Namespace = "default", cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False,
    wait: Wait = True, output: Output = TABLE,
) -> None:  # fmt: skip
    """Release the workers of a business and remove its Service."""
    with client() as http:
        path = f"{placed.one(http, cluster, _WHAT, (namespace, name))}/bindings/{part(business)}"
        begin_agreed(http, ("DELETE", path), How(wait, output, dry_run), yes)
