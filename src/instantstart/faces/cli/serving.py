"""``instantstart deployment|pool|router|autoscaler ...``: models served by containers of ours, and what leads to them and scales them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import files, show
from instantstart.faces.cli.agreeing import Yes, begin_agreed
from instantstart.faces.cli.placed import Cluster, Cursor, Limit, Name, Namespace, OnlyNamespace, base, one
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, client
from instantstart.faces.cli.steps import How, Spec, asked, begin

deployments = typer.Typer(help="Model deployments: vLLM, SGLang or any container, with the command as you type it.", no_args_is_help=True)
pools = typer.Typer(help="Model pools: warm workers that are given to businesses by one label.", no_args_is_help=True)
routers = typer.Typer(help="SGLang routers before the workers of a deployment or business.", no_args_is_help=True)
autoscalers = typer.Typer(help="Autoscalers of deployments and pools (KEDA).", no_args_is_help=True)

#: after ``--``, word by word; or one word that holds the whole line, in quotes
Words = Annotated[
    list[str] | None, typer.Argument(help="The command, after --: each word as it is; or as one quoted word, taken apart as a shell does.")
]
CommandFile = Annotated[Path | None, typer.Option("--command-file", help="A file with the command, as you would type it.")]
NewName = Annotated[str | None, typer.Option("--name", help="Name of its objects; left out: made of the model's id.")]
Engine = Annotated[str | None, typer.Option(help="vllm, sglang or custom; left out: as the command says.")]
Model = Annotated[str | None, typer.Option(help="Id or path of the model; left out: as the command says.")]
Image = Annotated[str | None, typer.Option(help="Container image; left out: the engine's pinned one.")]
Gpus = Annotated[int | None, typer.Option("--gpus", help="Accelerators of each pod.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="Instance type it may run on; may be given again.")]
Group = Annotated[str | None, typer.Option("--group", help="Only nodes of this instance group.")]
Cpu = Annotated[str | None, typer.Option(help="CPU of each pod; left out: its share of the node.")]
Memory = Annotated[str | None, typer.Option(help="Memory of each pod; left out: its share of the node.")]
Env = Annotated[list[str] | None, typer.Option("--env", help="NAME=value; may be given again.")]
AllEnv = Annotated[list[str] | None, typer.Option("--env", help="NAME=value; give every variable again: those not given are taken away.")]
SetEnv = Annotated[list[str] | None, typer.Option("--set-env", help="NAME=value to add or change; the others stay.")]
UnsetEnv = Annotated[list[str] | None, typer.Option("--unset-env", help="NAME to take away; the others stay.")]
TokenSecret = Annotated[str | None, typer.Option("--token-secret", help="Secret with the hub's token.")]
Volume = Annotated[list[str] | None, typer.Option("--volume", help="claim:/path, or claim:/path:rw; may be given again.")]
Port = Annotated[int | None, typer.Option(help="Port of the server; left out: as the command says.")]
Shell = Annotated[bool, typer.Option("--shell", help="Run the command by /bin/sh -c in the container.")]
Startup = Annotated[int | None, typer.Option("--startup-minutes", help="Minutes until its first health; left out: sized to the model.")]


def command_of(words: list[str] | None, file: Path | None) -> dict[str, Any]:
    """One word is a whole line; several are an argv as this shell already made it. Raises Invalid for a file that cannot be read."""
    if file is not None:
        return {"command": files.text_of(file)}
    if not words:
        return {}
    return {"command": words[0]} if len(words) == 1 else {"argv": words}


def pairs(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    wrong = [pair for pair in given if "=" not in pair]
    if wrong:
        raise problems.Invalid("serving.env", f"{wrong[0]!r} is no NAME=value.")
    return dict(pair.split("=", 1) for pair in given)


def mounts(given: list[str] | None) -> list[dict[str, Any]] | None:
    made = []
    for text in given or ():
        claim, _, rest = text.partition(":")
        path, _, mode = rest.partition(":")
        if not path or mode not in ("", "ro", "rw"):
            raise problems.Invalid("serving.volume", f"{text!r} is no volume: write it as claim:/path or claim:/path:rw.")
        made.append({"claim_name": claim, "mount_path": path, "read_only": mode != "rw"})
    return made or None


# --- deployments


@deployments.command("list")
def list_deployments(
    namespace: OnlyNamespace = None,
    contains: Annotated[str | None, typer.Option(help="Only with this in name or model.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """List deployments with their pods, and why one is not ready."""
    with client() as http:
        told = http.get(base(http, cluster, "model-deployments"), namespace=namespace, contains=contains, limit=limit, cursor=cursor)
    columns: show.Columns = {
        "NAMESPACE": "namespace", "NAME": "name", "STATE": "state", "READY": lambda d: f"{d['ready']}/{d['replicas']}", "MODEL": "model",
        "ENGINE": "engine", "ADDRESS": "address", "WHY": "why",
    }  # fmt: skip
    show.page(told, columns, output, empty="No model deployments.")


@deployments.command("get")
def get_deployment(name: Name, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one deployment: how it was asked, its argv, its pods, why it is not ready."""
    with client() as http:
        told = http.get(one(http, cluster, "model-deployments", (namespace, name)))
    if output is not TABLE:
        show.data(told, output)
        return
    show.thing(_summary(told), output)
    columns: show.Columns = {
        "POD": "name", "PHASE": "phase", "READY": "ready", "RESTARTS": "restarts", "NODE": "node", "WHY": "why",
    }  # fmt: skip
    show.rows(told["pods"], columns, output, empty="No pods.")


def _summary(told: Mapping[str, Any]) -> dict[str, Any]:
    item, asked = told["item"], told["asked"]
    where = [*(asked.get("instance_types") or ()), *([f"group {asked['instance_group']}"] if asked.get("instance_group") else ())]
    return {
        "name": f"{item['namespace']}/{item['name']}",
        "state": item["state"],
        "why": item["why"],
        "next_step": told["next_step"],
        "ready": f"{item['ready']} of {item['replicas']} pods",
        "address": f"{item['address'] or 'none yet'} ({item['exposure'].replace('_', ' ')})",
        "model": item["model"],
        "engine": item["engine"],
        "image": item["image"],
        "command": told["line"],
        "each_pod": told["resources"],
        "runs_on": where,
        "env": asked.get("env"),
        "secrets": [asked[key] for key in ("token_secret", "api_key_secret") if asked.get(key)],
        "volumes": [f"{v['claim_name']} at {v['mount_path']}" for v in asked.get("volumes") or ()],
        "autoscaler": item["autoscaler"],
        "used_by": told["dependents"],
        "warnings": told["warnings"],
        "created": show.moment(item["created_at"]),
    }


@deployments.command("create")
def create_deployment(
    words: Words = None, command_file: CommandFile = None, name: NewName = None, namespace: Namespace = "default", engine: Engine = None,
    model: Model = None, image: Image = None, gpus: Gpus = None, replicas: Annotated[int | None, typer.Option(help="Pods.")] = None,
    types: Types = None, group: Group = None, cpu: Cpu = None, memory: Memory = None, env: Env = None, token_secret: TokenSecret = None,
    volume: Volume = None, port: Port = None, shell: Shell = False, startup_minutes: Startup = None,
    load_balancer: Annotated[bool, typer.Option("--load-balancer", help="Also an address of its own, inside the VPC.")] = False,
    internet_facing: Annotated[bool, typer.Option("--internet-facing", help="The address is on the internet: an administrator's.")] = False,
    source_range: Annotated[list[str] | None, typer.Option("--source-range", help="Who may reach the address; may be given again.")] = None,
    api_key_secret: Annotated[str | None, typer.Option("--api-key-secret", help="Secret whose key requests must bear (vLLM).")] = None,
    cluster: Cluster = None, file: Spec = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE,
) -> None:  # fmt: skip
    """Serve a model. For example: instantstart deployment create --gpus 1 -- vllm serve Qwen/Qwen3-0.6B --max-model-len 8192."""
    body = asked(
        file, **command_of(words, command_file), name=name, namespace=namespace, engine=engine, model=model, image=image, gpus=gpus,
        replicas=replicas, instance_types=types, instance_group=group, cpu=cpu, memory=memory, env=pairs(env), token_secret=token_secret,
        volumes=mounts(volume), port=port, shell=shell or None, startup_minutes=startup_minutes, api_key_secret=api_key_secret,
        exposure="load_balancer" if load_balancer or internet_facing else None, scheme="internet-facing" if internet_facing else None,
        source_ranges=source_range,
    )  # fmt: skip
    with client() as http:
        begin_agreed(http, ("POST", base(http, cluster, "model-deployments")), How(wait, output, dry_run), yes, body)


@deployments.command("update")
def update_deployment(
    name: Name,
    words: Words = None,
    command_file: CommandFile = None,
    namespace: Namespace = "default",
    image: Image = None,
    gpus: Gpus = None,
    replicas: Annotated[int | None, typer.Option(help="Pods.")] = None,
    types: Types = None,
    cpu: Cpu = None,
    memory: Memory = None,
    env: AllEnv = None,
    set_env: SetEnv = None,
    unset_env: UnsetEnv = None,
    token_secret: TokenSecret = None,
    cluster: Cluster = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Change a deployment; what is left out stays. --dry-run shows each difference."""
    body = asked(
        file, **command_of(words, command_file), image=image, gpus=gpus, replicas=replicas, instance_types=types, cpu=cpu, memory=memory,
        env=pairs(env), set_env=pairs(set_env), unset_env=unset_env, token_secret=token_secret,
    )  # fmt: skip
    with client() as http:
        begin_agreed(http, ("PATCH", one(http, cluster, "model-deployments", (namespace, name))), How(wait, output, dry_run), yes, body)


@deployments.command("scale")
def scale_deployment(
    name: Name,
    replicas: Annotated[int, typer.Argument(help="Pods.")],
    namespace: Namespace = "default",
    cluster: Cluster = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Set the number of pods. Refused while an autoscaler owns it."""
    with client() as http:
        path = one(http, cluster, "model-deployments", (namespace, name)) + "/scale"
        begin(http, "POST", path, How(wait, output, dry_run), {"replicas": replicas})


@deployments.command("delete")
def delete_deployment(
    name: Name, namespace: Namespace = "default", cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """Delete a deployment with its address."""
    with client() as http:
        begin_agreed(http, ("DELETE", one(http, cluster, "model-deployments", (namespace, name))), How(wait, output, dry_run), yes)


# --- routers


@routers.command("list")
def list_routers(
    namespace: OnlyNamespace = None, limit: Limit = 20, cursor: Cursor = None, cluster: Cluster = None, output: Output = TABLE
) -> None:
    """List routers, with the workers each knows beside those that there are."""
    with client() as http:
        told = http.get(base(http, cluster, "sglang-routers"), namespace=namespace, limit=limit, cursor=cursor)
    columns: show.Columns = {
        "NAMESPACE": "namespace", "NAME": "name", "READY": lambda r: f"{r['ready']}/{r['replicas']}", "TARGET": "target",
        "BUSINESS": "business", "POLICY": "policy", "KNOWS": lambda r: f"{'?' if r['knows'] is None else r['knows']}/{r['workers']}",
        "WHY": "why",
    }  # fmt: skip
    show.page(told, columns, output, empty="No routers.")


@routers.command("get")
def get_router(name: Name, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one router: what it leads to, and which workers it misses or still has."""
    with client() as http:
        show.thing(http.get(one(http, cluster, "sglang-routers", (namespace, name))), output)


@routers.command("create")
def create_router(
    target: Annotated[str, typer.Argument(help="Deployment or pool whose workers it leads to.")],
    business: Annotated[str | None, typer.Option(help="Of a pool: whose workers.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of its objects; left out: made of the target's.")] = None,
    namespace: Namespace = "default",
    policy: Annotated[str | None, typer.Option(help="cache_aware, round_robin, random or power_of_two.")] = None,
    cache_threshold: Annotated[float | None, typer.Option(help="Least share of a prompt that a worker must know, 0 to 1.")] = None,
    balance_abs_threshold: Annotated[int | None, typer.Option(help="Requests by which workers may differ.")] = None,
    balance_rel_threshold: Annotated[float | None, typer.Option(help="The same as a ratio, at least 1.")] = None,
    replicas: Annotated[int | None, typer.Option(help="Routers.")] = None,
    port: Annotated[int | None, typer.Option(help="Port that requests go to.")] = None,
    cluster: Cluster = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Make the router of a deployment, or of one business of a pool."""
    body = asked(
        file, target=target, business=business, name=name, namespace=namespace, policy=policy, cache_threshold=cache_threshold,
        balance_abs_threshold=balance_abs_threshold, balance_rel_threshold=balance_rel_threshold, replicas=replicas, port=port,
    )  # fmt: skip
    with client() as http:
        begin(http, "POST", base(http, cluster, "sglang-routers"), How(wait, output, dry_run), body)


@routers.command("delete")
def delete_router(
    name: Name, namespace: Namespace = "default", cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """Delete a router; its workers stay."""
    with client() as http:
        begin_agreed(http, ("DELETE", one(http, cluster, "sglang-routers", (namespace, name))), How(wait, output, dry_run), yes)


# --- autoscalers


@autoscalers.command("list")
def list_autoscalers(
    namespace: OnlyNamespace = None, limit: Limit = 50, cursor: Cursor = None, cluster: Cluster = None, output: Output = TABLE
) -> None:
    """List autoscalers of anybody."""
    with client() as http:
        told = http.get(base(http, cluster, "autoscalers"), namespace=namespace, limit=limit, cursor=cursor)
    columns: show.Columns = {
        "NAMESPACE": "namespace", "TARGET": "target", "KIND": "kind", "NAME": "name", "PODS": "replicas",
        "BOUNDS": lambda a: f"{a['min_replicas']}-{a['max_replicas']}", "METRIC": "metric", "READY": "ready", "WHY": "why",
    }  # fmt: skip
    show.page(told, columns, output, empty="No autoscalers.")


@autoscalers.command("create")
def create_autoscaler(
    target: Annotated[str, typer.Argument(help="Deployment or pool that it scales.")],
    most: Annotated[int | None, typer.Option("--max", help="Most pods.")] = None,
    fewest: Annotated[int | None, typer.Option("--min", help="Fewest pods.")] = None,
    metric: Annotated[str | None, typer.Option(help="waiting, running, cache, router_requests or custom.")] = None,
    threshold: Annotated[float | None, typer.Option(help="What each pod may have of the metric.")] = None,
    query: Annotated[str | None, typer.Option(help="PromQL of metric custom.")] = None,
    prometheus: Annotated[str | None, typer.Option(help="namespace/service:port of a Prometheus; left out: the AMP workspace.")] = None,
    accept_no_data: Annotated[bool, typer.Option("--accept-no-data", help="Take a query that answers nothing now.")] = False,
    namespace: Namespace = "default",
    cluster: Cluster = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Scale a deployment or pool by its load. --dry-run shows the query, and what it answers now."""
    body = asked(
        file, target=target, namespace=namespace, min_replicas=fewest, max_replicas=most, metric=metric, threshold=threshold, query=query,
        prometheus=prometheus, accept_no_data=accept_no_data or None,
    )  # fmt: skip
    with client() as http:
        begin(http, "POST", base(http, cluster, "autoscalers"), How(wait, output, dry_run), body)


@autoscalers.command("delete")
def delete_autoscaler(
    target: Annotated[str, typer.Argument(help="Deployment or pool that it scales.")], namespace: Namespace = "default",
    cluster: Cluster = None, yes: Yes = False, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE,
) -> None:  # fmt: skip
    """Stop scaling by load; the pods stay."""
    with client() as http:
        begin_agreed(http, ("DELETE", one(http, cluster, "autoscalers", (namespace, target))), How(wait, output, dry_run), yes)
