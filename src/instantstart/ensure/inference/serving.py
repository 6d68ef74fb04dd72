"""What we serve models with: the marks on everything that serves, the engines and what each needs, where a server's port is.

Both paths bear the same marks: what the self-managed path makes, and what is found of the managed one. Facts: documentation of vLLM
(``vllm serve``, Production Metrics) and SGLang (Server Arguments, Production Metrics, Model Gateway).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from instantstart.base import names
from instantstart.base.settings import Settings
from instantstart.ensure.installs.releases import MANAGED_BY, MANAGER
from instantstart.ensure.running import pod_shapes

Resource = dict[str, Any]
EngineName = Literal["vllm", "sglang", "custom"]
#: what an object is in serving: a model server, a pool of them, a router before them, a binding of a business to workers
Part = Literal["model-server", "model-pool", "sglang-router", "model-binding", "autoscaler"]

PART = "instantstart.dev/serving"
#: the deployment, pool or router that an object belongs to: the selector of its pods
SERVED = "instantstart.dev/served"
ENGINE = "instantstart.dev/engine"
#: the model's id as a label value; the id as it is stands in MODEL_ID
MODEL = "instantstart.dev/model"
MODEL_ID = "instantstart.dev/model-id"
POOL = "instantstart.dev/pool"
#: the one label that says whom a warm worker works for
BUSINESS = "business"
UNASSIGNED, RETIRING = "unassigned", "retiring"
#: of a binding: how many workers its business is to have, restored when one of them is lost
WORKERS = "instantstart.dev/workers"
#: which write made that count
COUNTED_BY = "instantstart.dev/counted-by"
#: what was asked, as JSON, so that a later request may leave fields out
ASKED = "instantstart.dev/asked"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
#: of a router: what it leads to
TARGET = "instantstart.dev/target"
CONTAINER, PORT_NAME, METRICS_PORT_NAME = "server", "http", "metrics"
#: Prometheus scrapes what says so of itself; the observability add-on and the usual community configuration read these
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)[bB](?![A-Za-z0-9])")
_SCRAPE, _SCRAPE_PORT, _SCRAPE_PATH = "prometheus.io/scrape", "prometheus.io/port", "prometheus.io/path"


#: flags of vLLM that take no value
_SWITCH = re.compile(r"--(?:no-|enable-|disable-|trust-remote-code|enforce-eager|async-scheduling|skip-|use-|calculate-|headless|return-)")
_NAMES_OTHER_MODELS = frozenset({"--tokenizer", "--served-model-name", "--hf-config-path", "--generation-config", "--lora-modules"})
_LOOKS_LIKE_A_MODEL = re.compile(r"/?[\w.-]+/[\w./-]+\Z")


@dataclass(frozen=True)
class Engine:
    """A server of models. ``health`` None: only its port is looked at; ``metrics`` None: it is not known to have any."""

    name: EngineName
    title: str
    port: int
    health: str | None
    metrics: str | None
    #: flags of its command that name the model, the port, what it calls the model, and the kinds of parallelism
    model_flags: tuple[str, ...] = ()
    served_flags: tuple[str, ...] = ()
    tensor_flags: tuple[str, ...] = ()
    pipeline_flags: tuple[str, ...] = ()
    data_flags: tuple[str, ...] = ()
    #: parts of an argv that tell it, one after another
    spoken: tuple[tuple[str, ...], ...] = ()
    #: without these in the argv it cannot be reached from outside the container, or shows no metrics
    needs: tuple[str, ...] = ()
    #: gauges of its metrics: requests that wait, requests that run, share of the KV cache in use
    waiting: str | None = None
    running: str | None = None
    cache: str | None = None
    #: parts of an image's name that tell it
    images: tuple[str, ...] = ()


ENGINES: Mapping[EngineName, Engine] = {
    "vllm": Engine(
        "vllm", "vLLM", 8000, "/health", "/metrics",
        model_flags=("--model",), served_flags=("--served-model-name",),
        tensor_flags=("--tensor-parallel-size", "-tp"), pipeline_flags=("--pipeline-parallel-size", "-pp"),
        data_flags=("--data-parallel-size", "-dp"),
        spoken=(("vllm", "serve"), ("-m", "vllm.entrypoints.openai.api_server"), ("-m", "vllm.entrypoints.api_server")),
        waiting="vllm:num_requests_waiting", running="vllm:num_requests_running", cache="vllm:kv_cache_usage_perc",
        images=("vllm",),
    ),
    "sglang": Engine(
        "sglang", "SGLang", 30000, "/health", "/metrics",
        model_flags=("--model-path", "--model"), served_flags=("--served-model-name",),
        tensor_flags=("--tp-size", "--tensor-parallel-size", "--tp"), pipeline_flags=("--pp-size", "--pipeline-parallel-size", "--pp"),
        data_flags=("--dp-size", "--data-parallel-size", "--dp"),
        spoken=(("-m", "sglang.launch_server"), ("sglang", "serve")), needs=("--host", "--enable-metrics"),
        waiting="sglang:num_queue_reqs", running="sglang:num_running_reqs", cache="sglang:token_usage",
        images=("sglang",),
    ),
    "custom": Engine("custom", "Container", 8080, None, None, model_flags=("--model", "--model-path")),
}  # fmt: skip


def default_image(settings: Settings, engine: EngineName) -> str | None:
    """The pinned image of an engine (settings); None where a person must name one."""
    return {"vllm": settings.vllm_image, "sglang": settings.sglang_image}.get(engine)


def engine_of(argv: Sequence[str], image: str | None = None) -> EngineName:
    """Which engine a command starts: by its own words, else (flags alone, for the image's entry point) by the image."""
    for engine in ENGINES.values():
        for words in engine.spoken:
            if any(tuple(argv[at : at + len(words)]) == words for at in range(min(len(argv), 8))):
                return engine.name
    if not argv or argv[0].startswith("-"):
        repository = (image or "").partition("@")[0].rpartition("/")[2]
        return next((e.name for e in ENGINES.values() if any(part in repository for part in e.images)), "custom")
    return "custom"


def flag(argv: Sequence[str], flags: Sequence[str]) -> str | None:
    """The value of the last of these flags, as ``--flag value`` or ``--flag=value`` (``--a_b`` is ``--a-b``); None when none is given."""
    found = None
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if (name.replace("_", "-") if name.startswith("--") else name) in flags:
            found = value if equals else argv[at + 1] if at + 1 < len(argv) else None
    return found


def model_of(engine: EngineName, argv: Sequence[str]) -> str | None:
    """The model that a command names: by its flag, or as the word after ``vllm serve``."""
    by_flag = flag(argv, ENGINES[engine].model_flags)
    if by_flag is not None:
        return by_flag
    started = next((at for at in range(len(argv) - 1) if tuple(argv[at : at + 2]) == ("vllm", "serve")), None)
    return _positional(argv[started + 2 :]) if started is not None else None


def _positional(words: Sequence[str]) -> str | None:
    """The first word that is no flag and no flag's value. Of a flag that is not known to be a switch, the next word is the value;
    where that leaves none, the last value that looks like a model is it: then its flag was a switch.
    """
    taken: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            return word
        name = word.replace("_", "-")
        if "=" not in word and not _SWITCH.match(name):
            value = next(rest, "")
            taken += [value] if value and not value.startswith("-") and name not in _NAMES_OTHER_MODELS else []
    return next((value for value in reversed(taken) if _LOOKS_LIKE_A_MODEL.match(value)), None)


def served_as(engine: EngineName, argv: Sequence[str]) -> str | None:
    """What the server calls its model in requests; None: as its id."""
    return flag(argv, ENGINES[engine].served_flags)


def port_of(engine: EngineName, argv: Sequence[str]) -> int | None:
    """The port that a command says; None when it says none, or something that is no port."""
    told = flag(argv, ("--port",))
    return int(told) if told and told.isdigit() and 0 < int(told) < 65536 else None


def parallelism(engine: EngineName, argv: Sequence[str]) -> tuple[int, int, int] | None:
    """Tensor, pipeline and data parallelism as the command says, 1 where it says nothing; None when none is said."""
    of = ENGINES[engine]
    told = [flag(argv, flags) if flags else None for flags in (of.tensor_flags, of.pipeline_flags, of.data_flags)]
    if not any(told):
        return None
    return tuple(int(t) if is_count(t) else 1 for t in told)  # type: ignore[return-value]


def is_count(text: str | None) -> TypeGuard[str]:
    """Whether a flag's value is a number of ranks: whole, and one at least."""
    return text is not None and text.isdecimal() and int(text) > 0


@dataclass(frozen=True)
class Marks:
    """Who an object of serving belongs to. ``name`` is that of its deployment, pool or router; ``model`` the id as it is."""

    name: str
    part: Part
    engine: EngineName = "custom"
    model: str | None = None

    def labels(self) -> dict[str, str]:
        """The labels of the object; those of its pods too."""
        own = {PART: self.part, SERVED: self.name, ENGINE: self.engine}
        return pod_shapes.labels(self.name, self.part, **own, **({MODEL: names.label_value(self.model)} if self.model else {}))

    def annotations(self) -> dict[str, str]:
        """What a label cannot say."""
        return {MODEL_ID: self.model} if self.model else {}

    def selector(self) -> dict[str, str]:
        """What finds its pods, and no others': it never changes while the name lives."""
        return {SERVED: self.name, PART: self.part}


def marks(resource: Mapping[str, Any]) -> Marks | None:
    """The marks of an object; None when we did not make it for serving."""
    labels = resource.get("metadata", {}).get("labels") or {}
    if PART not in labels or SERVED not in labels or not is_ours(resource):
        return None
    annotations = resource["metadata"].get("annotations") or {}
    return Marks(labels[SERVED], labels[PART], labels.get(ENGINE, "custom"), annotations.get(MODEL_ID))


def is_ours(resource: Mapping[str, Any]) -> bool:
    """Whether InstantStart made it."""
    labels = resource.get("metadata", {}).get("labels") or {}
    return bool(labels.get(MANAGED_BY) == MANAGER)


def selector(part: Part | None = None, name: str | None = None) -> str:
    """A label selector for what we serve with."""
    own = f"{PART}={part}" if part else PART
    return f"{MANAGED_BY}={MANAGER},{own}" + (f",{SERVED}={name}" if name else "")


def asked(resource: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked of an object, as it is kept on it; empty when nothing (readable) is kept."""
    try:
        told = json.loads((resource.get("metadata", {}).get("annotations") or {}).get(ASKED, "{}"))
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def target_of(resource: Mapping[str, Any]) -> str | None:
    """What a router leads to, or an autoscaler of ours scales."""
    return (resource.get("metadata", {}).get("annotations") or {}).get(TARGET)


def scraped(port: int, path: str | None) -> dict[str, str]:
    """Annotations of a pod whose metrics are to be collected."""
    return {_SCRAPE: "true", _SCRAPE_PORT: str(port), _SCRAPE_PATH: path} if path else {}


def container_port(resource: Mapping[str, Any], name: str = PORT_NAME) -> int | None:
    """The port of that name of a Deployment's or a pod's container; None when there is none."""
    spec = resource["spec"]
    pod = spec.get("template", {}).get("spec") or spec
    ports = [p for c in pod.get("containers") or () for p in c.get("ports") or ()]
    return next((int(p["containerPort"]) for p in ports if p.get("name") == name), None)


def model_gib(model: str | None) -> float | None:
    """GiB of a model's weights by the size in its name (``8B``, ``8x7B``, ``0.6b``), at two bytes a parameter; None when it tells none."""
    found = _SIZE.findall(model or "")
    return max(float(many or 1) * float(billions) for many, billions in found) * 2e9 / 2**30 if found else None


def startup_seconds(gib: float | None) -> int:
    """How long a server may take from its start to its first health: image, download and load of the weights, compiling; generous.

    A quarter of an hour, and 20 seconds more for each GiB (a slow download of 50 MiB/s), three hours at most.
    """
    return int(min(900 + 20 * (gib if gib is not None else 60), 3 * 3600))
