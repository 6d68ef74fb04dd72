"""What must hold before an endpoint is made or changed: each rule has its own sentence and points at the field it is about.

The rules look at the settings whole (an update is laid over what is there first) and at Facts that were read before; they are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import problems, trees
from instantstart.base.trees import Tree
from instantstart.capabilities.inference.endpoints import parts, triggers
from instantstart.ensure.capacity import accelerators
from instantstart.ensure.capacity.accelerators import Offer, Share
from instantstart.ensure.findings import Finding
from instantstart.ensure.inference import serving
from instantstart.ensure.managed.component_state import State, Status

#: settings that are one value though they are mappings
WHOLE = frozenset({"env"})
#: fields of the source that count for each type
_SOURCE = {
    "s3": {"bucket", "region", "location", "prefetch"},
    "fsx": {"file_system_id", "file_system_dns", "mount_name", "location", "prefetch"},
    "huggingface": {"repository", "commit", "token_secret", "prefetch"},
    "volume": {"claim", "location", "prefetch"},
    "jumpstart": {"model_id", "model_version", "hub", "accept_eula", "gated_role_arn"},
}
_NEEDED = {
    "s3": ("bucket", "location"),
    "fsx": ("file_system_id", "location"),
    "huggingface": ("repository",),
    "volume": ("claim",),
    "jumpstart": ("model_id",),
}
#: the operator can scrape no port below it (its definition)
_LOWEST_METRICS_PORT = 1024
_COMPLETIONS = ("v1/completions", "v1/chat/completions")
_ENABLE = "Switch the feature inference_operator on, and wait until it runs."


@dataclass(frozen=True)
class Facts:
    """What was read. ``source``: what was found of the model; ``offers``: what a node of each asked type has, None where nobody knows."""

    operator: Status | problems.Problem
    tiered: bool | problems.Problem
    offers: Mapping[str, Offer | None] = field(default_factory=dict)
    #: instance types that the cluster has, or can get from a group or a node pool
    types: frozenset[str] | problems.Problem = frozenset()
    source: tuple[Finding, ...] = ()
    #: what stands in the way of the name: sentences
    taken: tuple[str, ...] = ()
    namespace: bool = True
    #: references to Secrets that lead nowhere: (pointer, sentence)
    secrets: tuple[tuple[str, str], ...] = ()
    #: it is to be made, not changed
    fresh: bool = True
    #: Services of the namespace whose variables a server takes for its own
    links: tuple[str, ...] = ()
    #: autoscalers of others on the same Deployment
    scalers: tuple[str, ...] = ()
    #: the suffix of AWS's addresses here
    suffix: str = ""
    #: settings for which the kind of endpoint has no place
    foreign: tuple[str, ...] = ()


def findings(settings: Tree, facts: Facts) -> list[Finding]:
    """Everything that was found, good and bad."""
    jumpstart = trees.get(settings, "source.type") == "jumpstart"
    own: tuple[Callable[[Tree, Facts], Iterable[Finding]], ...] = (_jumpstart,) if jumpstart else (_server, _ports, _command, _limits)
    every = (_operator, _name, _source, _types, _replicas, _cache, _routing, triggers.check, _tls, _variables)
    return [found for check in (*every, *own) for found in check(settings, facts)]


def refusal(found: Iterable[Finding]) -> problems.Problem | None:
    """The Problem that failing findings mean: all violations at once."""
    failing = [f for f in found if f.level == "fail"]
    if not failing:
        return None
    hints = " ".join(dict.fromkeys(f.hint for f in failing if f.hint))
    fields = [problems.Violation(f"/{f.check}" if f.check not in ("operator", "whole") else "", f.detail) for f in failing]
    return problems.Invalid("inference_endpoint.refused", " ".join(f.detail for f in failing), hint=hints or None, fields=fields)


def fixed(before: Tree, after: Tree) -> list[Finding]:
    """What an update may not change."""
    changed = trees.differences(before, after, WHOLE)
    told = "Variables cannot be changed: the operator refuses it. Make another endpoint with these."
    found = [_fail(name.replace(".", "/"), told) for name in changed if name in ("server.env", "server.secret_env")]
    if any(name.startswith("routing.") for name in changed):
        found += _routing_is_fixed(before, after)
    kinds = changed.get("source.type")
    if kinds and "jumpstart" in kinds:
        found.append(_fail("source/type", "An endpoint cannot become one of JumpStart, or stop being one: make another."))
    return found


def _routing_is_fixed(before: Tree, after: Tree) -> list[Finding]:
    was, now = bool(trees.get(before, "routing.enabled")), bool(trees.get(after, "routing.enabled"))
    if was != now:
        word = "on" if now else "off"
        told = f"Routing cannot be switched {word} later: it is fixed when the endpoint is created. Make another endpoint."
        return [_fail("routing/enabled", told)]
    if trees.get(before, "routing.session_key") != trees.get(after, "routing.session_key"):
        return [_fail("routing/session_key", "The session key is a variable of the server, and variables cannot be changed.")]
    return []


# --- the world


def _operator(_settings: Tree, facts: Facts) -> Iterable[Finding]:
    told = facts.operator
    if isinstance(told, problems.Problem):
        yield Finding("operator", "unknown", f"Whether the inference operator runs cannot be read: {told.detail}")
    elif told.state is State.on:
        yield Finding("operator", "ok", told.why)
    elif told.state is State.drifted:
        yield Finding("operator", "warn", told.why, "Repair the feature inference_operator.")
    elif told.state is State.unknown:
        yield Finding("operator", "unknown", told.why)
    else:
        yield Finding("operator", "fail", f"The inference operator is not ready: {told.why}", _ENABLE)


def _name(_settings: Tree, facts: Facts) -> Iterable[Finding]:
    if not facts.namespace:
        yield _fail("namespace", "There is no such namespace in the cluster.", "Make the namespace, or choose another.")
    for told in facts.taken:
        yield _fail("name", told, "Choose another name.")
    for name in facts.links:
        told = f"The Service {name} of the namespace sets {name.upper()}_PORT in its pods: the server takes it for its own port, and ends."
        yield _fail("namespace", told, f"Choose another namespace, rename that Service, or set {name.upper()}_PORT in server.env.")
    for pointer, told in facts.secrets:
        yield _fail(pointer, told)
    for other in facts.scalers:
        yield _fail("autoscaling", f"{other} scales it already: two autoscalers on one workload undo each other.", f"Remove {other} first.")
    for name in facts.foreign:
        yield _fail(name.replace(".", "/"), f"A JumpStart model brings its own server: leave {name} out.")


def _source(settings: Tree, facts: Facts) -> Iterable[Finding]:
    source = settings.get("source") or {}
    kind = source.get("type")
    if kind is None:
        yield _fail("source/type", "Say where the model is: s3, fsx, huggingface, volume or jumpstart.")
        return
    for name in _NEEDED[kind]:
        if not source.get(name):
            yield _fail(f"source/{name}", f"A model of type {kind} needs {name}.")
    for name in source:
        if name != "type" and name not in _SOURCE[kind]:
            others = " and ".join(k for k, names in _SOURCE.items() if name in names)
            yield _fail(f"source/{name}", f"{name} counts only for {others}: leave it out.")
    yield from facts.source


def _jumpstart(settings: Tree, _facts: Facts) -> Iterable[Finding]:
    source = settings.get("source") or {}
    if source.get("accept_eula"):
        return
    if source.get("gated_role_arn"):
        told = "A gated model is downloaded only when its licence is accepted: gated_role_arn without accept_eula cannot work."
        yield _fail("source/accept_eula", told, "Read the model's licence, then set accept_eula to true.")
        return
    told = "The licence is not accepted: a gated model (such as Llama) will not be downloaded."
    yield Finding("source/accept_eula", "warn", told, "Set accept_eula to true if the model has a licence.")


def _types(settings: Tree, facts: Facts) -> Iterable[Finding]:
    types = settings.get("instance_types") or []
    if not types:
        yield _fail("instance_types", "Name at least one instance type to run on.")
    if trees.get(settings, "source.type") == "jumpstart" and len(types) > 1:
        yield _fail("instance_types", "A JumpStart model takes one instance type.")
    for at, each in enumerate(types):
        if each in types[:at]:
            yield _fail(f"instance_types/{at}", f"{each} is named twice.")
        elif isinstance(facts.types, problems.Problem):
            yield Finding(f"instance_types/{at}", "unknown", f"Which types the cluster has cannot be read: {facts.types.detail}")
        elif each not in facts.types:
            have = ", ".join(sorted(facts.types)) or "none"
            told = f"The cluster has no instance group or node pool of {each}; it has: {have}."
            yield _fail(f"instance_types/{at}", told, f"Add an instance group of {each}, or name one of those.")
        else:
            yield from _fits(settings, f"instance_types/{at}", facts.offers.get(each))


def _fits(settings: Tree, at: str, offer: Offer | None) -> Iterable[Finding]:
    """Whether a node of the type has what a replica asks for."""
    server = settings.get("server") or {}
    if offer is None or server.get("accelerators") is None:
        return
    if not offer.nodes:
        yield Finding(at, "warn", f"No node of {offer.instance_type} is there now: a replica waits until one is.")
    asked = Share(accelerators=server["accelerators"], efa=0, cpu=server.get("cpu"), memory=server.get("memory"))
    for wrong in accelerators.size(offer, asked).wrong:
        yield _fail(f"server/{wrong.pointer}", wrong.message)


def _replicas(settings: Tree, facts: Facts) -> Iterable[Finding]:
    scaling = settings.get("autoscaling")
    if scaling is not None and settings.get("replicas") is not None:
        told = "Autoscaling owns the number of replicas: a number beside it is undone. Give one of the two."
        yield _fail("replicas", told, "Set replicas to null, or leave autoscaling out.")
    if scaling is None and settings.get("replicas") == 0:
        yield Finding("replicas", "warn", "With 0 replicas nothing answers, and no first answer is waited for.")


# --- the server


def _variables(settings: Tree, facts: Facts) -> Iterable[Finding]:
    for name in parts.secrets_in(settings) if facts.fresh else ():
        told = f"{name} looks like a secret: it would stand readable in the pod and in our records."
        yield _fail(f"server/env/{name}", told, "Store it as a Secret, and name that in server.secret_env.")


def _server(settings: Tree, _facts: Facts) -> Iterable[Finding]:
    server = settings.get("server") or {}
    if not server.get("image"):
        yield _fail("server/image", "Name the image of the server.")
    if server.get("accelerators") is None:
        yield _fail("server/accelerators", "Say how many accelerators a replica gets: they are never guessed. 0 says none.")


def _ports(settings: Tree, _facts: Facts) -> Iterable[Finding]:
    port = trees.get(settings, "server.port")
    probe, metrics = trees.get(settings, "server.probe_port"), trees.get(settings, "metrics.port")
    if probe is not None and probe != port:
        yield _fail("server/probe_port", f"Probes ask port {probe}, but the server listens on {port}: it would never be ready.")
    if trees.get(settings, "metrics.enabled") is False:
        return
    if metrics is not None and metrics != port:
        yield _fail("metrics/port", f"Metrics are read from port {metrics}, but the server listens on {port}: there would be none.")
    elif port is not None and port < _LOWEST_METRICS_PORT:
        told = f"The operator reads no metrics from a port below {_LOWEST_METRICS_PORT}, and the server listens on {port}."
        yield _fail("server/port", told, "Choose a higher port, or set metrics.enabled to false.")


def _command(settings: Tree, _facts: Facts) -> Iterable[Finding]:
    """What the words of the command say must be what the fields say."""
    server = settings.get("server") or {}
    argv = [*(server.get("command") or ()), *(server.get("args") or ())]
    engine = serving.engine_of(argv, server.get("image"))
    told = serving.port_of(engine, argv)
    if told is not None and told != server.get("port"):
        yield _fail("server/args", f"The command listens on port {told}, but server.port is {server.get('port')}.")
    ways, count = serving.parallelism(engine, argv), server.get("accelerators")
    if ways is None or count is None:
        return
    needed = ways[0] * ways[1] * ways[2]
    if needed > count:
        yield _fail("server/accelerators", f"The command spreads the model over {needed} accelerators, and a replica gets {count}.")
    elif needed < count:
        yield Finding("server/accelerators", "warn", f"The command uses {needed} of the {count} accelerators that a replica gets.")


def _limits(settings: Tree, _facts: Facts) -> Iterable[Finding]:
    server = settings.get("server") or {}
    if server.get("max_concurrent_requests") is None:
        for name in ("max_queue_size", "overflow_status"):
            if server.get(name) is not None:
                yield _fail(f"server/{name}", f"{name} counts only with max_concurrent_requests.")


# --- cache and routing


def _cache(settings: Tree, facts: Facts) -> Iterable[Finding]:
    cache = settings.get("cache")
    if cache is None:
        return
    second, url = cache.get("l2") or "none", cache.get("redis_url")
    if second != "none" and cache.get("l1") is False:
        yield _fail("cache/l1", f"The second tier ({second}) needs the first: switch l1 on.")
    if second == "redis" and not url:
        yield _fail("cache/redis_url", "A second tier in Redis needs its address.")
    if second != "redis" and url:
        yield _fail("cache/redis_url", f"An address of Redis counts only with l2 redis; l2 is {second}.")
    if second == "tieredstorage":
        yield from _tiered(facts)
    yield from _vllm_only(settings, "cache", "The tiered cache")


def _tiered(facts: Facts) -> Iterable[Finding]:
    if isinstance(facts.tiered, problems.Problem):
        yield Finding("cache/l2", "unknown", f"Whether the cluster has tiered storage cannot be read: {facts.tiered.detail}")
    elif not facts.tiered:
        told = "l2 tieredstorage needs managed tiered storage on the cluster, and it is off."
        yield _fail("cache/l2", told, "Switch the feature tiered_checkpointing on, or use redis.")


def _routing(settings: Tree, _facts: Facts) -> Iterable[Finding]:
    routing = settings.get("routing")
    if routing is None or not routing.get("enabled"):
        return
    strategy, cache = routing.get("strategy") or "prefixaware", settings.get("cache")
    cached = cache is not None and (cache.get("l1") is not False or (cache.get("l2") or "none") != "none")
    if strategy == "kvaware" and not cached:
        yield _fail("routing/strategy", "kvaware routes by what the cache holds, and there is no cache: give cache, or another strategy.")
    if strategy == "kvaware" and settings.get("invocation_path") not in (None, *_COMPLETIONS):
        told = f"kvaware reads the prompt of completions: invocation_path must be {' or '.join(_COMPLETIONS)}."
        yield _fail("invocation_path", told)
    if strategy == "session" and not routing.get("session_key"):
        yield _fail("routing/session_key", "Routing by session needs the name of what tells sessions apart, such as x-user-id.")
    if strategy not in ("session", "kvaware") and routing.get("session_key"):
        yield _fail("routing/session_key", f"A session key counts only with session or kvaware; the strategy is {strategy}.")
    yield from _vllm_only(settings, "routing", "Routing")


def _vllm_only(settings: Tree, at: str, what: str) -> Iterable[Finding]:
    server = settings.get("server") or {}
    engine = serving.engine_of([*(server.get("command") or ()), *(server.get("args") or ())], server.get("image"))
    if server.get("image") and engine != "vllm":
        yield Finding(at, "warn", f"{what} works with vLLM only, and the server does not look like vLLM.")


def _tls(settings: Tree, _facts: Facts) -> Iterable[Finding]:
    tls = settings.get("tls") or {}
    certificate, domain = tls.get("certificate_arn"), tls.get("domain_name")
    if certificate and not domain:
        yield _fail("tls/domain_name", "A certificate of yours needs the domain of it that is to be used.")
    if domain and not certificate:
        yield _fail("tls/certificate_arn", "A domain needs the certificate that it belongs to.")
    if tls.get("hosted_zone_id") and not certificate:
        yield _fail("tls/hosted_zone_id", "A name is made only for a certificate of yours: give certificate_arn and domain_name.")
    bucket = str(tls.get("output_s3_uri") or "").removeprefix("s3://").partition("/")[0]
    if bucket and not bucket.startswith("hyperpod-tls-"):
        told = f"The operator's own policy lets it write only to buckets that begin with hyperpod-tls-, and {bucket} does not."
        yield Finding("tls/output_s3_uri", "warn", told)


def _fail(check: str, detail: str, hint: str | None = None) -> Finding:
    return Finding(check, "fail", detail, hint)


def changed_by(found: Iterable[Finding], before: Iterable[Finding], patch: Mapping[str, Any]) -> list[Finding]:
    """The findings that a patch answers for: new ones, and those at what it names. What was wrong before stays another's matter."""
    known = {(f.check, f.detail) for f in before}
    groups = {"operator", "whole", *patch}
    return [f for f in found if f.level != "fail" or (f.check, f.detail) not in known or f.check.split("/")[0] in groups]


def defaults(name: str, settings: Tree) -> Tree:
    """Settings with what the server fills in when an endpoint is created."""
    made = trees.merge({}, settings, WHOLE)
    if made.get("autoscaling") is None and made.get("replicas") is None:
        made["replicas"] = 1
    if made.get("routing") is not None and trees.get(made, "routing.enabled") is None:
        trees.put(made, "routing.enabled", True)
    if trees.get(made, "source.type") == "jumpstart":
        return made
    made.setdefault("model_name", name)
    made.setdefault("invocation_path", _COMPLETIONS[1])
    usual = {"port": 8000, "mount_path": "/opt/ml/model", "health_path": parts.DEFAULT_HEALTH, "startup_seconds": 1800}
    made["server"] = {**usual, **(made.get("server") or {})}
    return made
