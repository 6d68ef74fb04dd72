"""Starts the server that a container's words ask for: vLLM's, SGLang's, or the one of SageMaker's LMI container."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass, field, replace

from . import models, native, sglang, spoiling, vllm
from .engine import Engine
from .models import Accelerators, CannotLoadError, Model
from .moments import Moments
from .service import App, Facts, Route, Service
from .web import Request, Server

POD_IP = "INSTANTSTART_SANDBOX_POD_IP"
_PORT = "INSTANTSTART_SANDBOX_PORT"
#: set by kubelet/mounts.py
_MOUNTED = "INSTANTSTART_SANDBOX_MOUNTS"
_NOWHERE = ("127.0.0.1", "localhost", "::1")
_CACHE_TOKENS = 400_000
_SHARDS = 4


@dataclass
class Plan:
    """What is to be served, whichever program was asked for."""

    kind: str
    model: str
    port: int
    host: str | None
    version: str
    names: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    parts: int = 1
    quantization: str | None = None
    context: int | None = None
    places: int = 256
    share: float = 0.9
    metrics: bool = True
    spread: bool = False
    cache_report: bool = False
    dummy: bool = False
    embedding: bool = False
    routes: dict[tuple[str, str], Route] = field(default_factory=dict)


def as_mounted(text: str) -> str:
    """A text with paths as the container knows them, where the process was given the real folders that stand for its mounts."""
    for real, path in sorted(json.loads(os.environ.get(_MOUNTED) or "{}").items(), key=lambda each: -len(each[0])):
        text = text.replace(real, path)
    return text


def plan(words: list[str]) -> Plan | None:
    """What the container's words ask for; None for words that ask for no server of ours."""
    name, rest = words[0].rpartition("/")[2] if words else "", words[1:]
    if name.startswith("python"):
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            rest = rest[1:]
        name, rest = (rest[1], rest[2:]) if len(rest) > 1 else ("", [])
    if name == "vllm" and rest[:1] == ["serve"]:
        return _vllm(vllm.parse(rest[1:], positional=True))
    if name in ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"):
        return _vllm(vllm.parse(rest, positional=False))
    if name == "sglang" and rest[:1] == ["serve"]:
        return _sglang(sglang.parse(rest[1:]))
    if name == "sglang.launch_server":
        return _sglang(sglang.parse(rest))
    return _lmi() if name == "lmi" else None


def _vllm(given: argparse.Namespace) -> Plan:
    made = Plan("vllm", given.model, given.port or 8000, given.host, vllm.VERSION, routes=native.VLLM)
    made.names = given.served_model_name or [given.model]
    made.keys = given.api_key or ([os.environ["VLLM_API_KEY"]] if os.environ.get("VLLM_API_KEY") else [])
    made.parts = (given.tensor_parallel_size or 1) * (given.pipeline_parallel_size or 1) * (given.data_parallel_size or 1)
    made.spread = bool(given.distributed_executor_backend == "ray" or (given.nnodes or 1) > 1)
    made.quantization, made.context, made.places = given.quantization, given.max_model_len, given.max_num_seqs or 256
    made.share = 0.9 if given.gpu_memory_utilization is None else given.gpu_memory_utilization
    made.metrics, made.cache_report = not given.disable_log_stats, bool(given.enable_prompt_tokens_details)
    made.dummy = given.load_format == "dummy"
    made.embedding = given.runner == "pooling" or given.task in ("embed", "embedding") or given.convert == "embed"
    return made


def _sglang(given: argparse.Namespace) -> Plan:
    made = Plan("sglang", given.model_path, given.port or 30000, given.host or "127.0.0.1", sglang.VERSION, routes=native.SGLANG)
    made.names, made.keys = [given.served_model_name or given.model_path], [given.api_key] if given.api_key else []
    made.parts = (given.tensor_parallel_size or 1) * (given.pipeline_parallel_size or 1) * (given.data_parallel_size or 1)
    made.spread = (given.nnodes or 1) > 1
    made.quantization, made.context, made.places = given.quantization, given.context_length, given.max_running_requests or 256
    made.share = given.mem_fraction_static or 0.9
    made.metrics, made.cache_report = bool(given.enable_metrics), bool(given.enable_cache_report)
    made.dummy, made.embedding = given.load_format == "dummy", bool(given.is_embedding)
    return made


def _lmi() -> Plan:
    """SageMaker's LMI (DJL) and other inference containers take their settings from the environment."""
    env = os.environ
    model = (
        env.get("HF_MODEL_ID")
        or env.get("OPTION_MODEL_ID")
        or env.get("SM_VLLM_MODEL")
        or env.get("SM_SGLANG_MODEL_PATH")
        or env.get("SM_MODEL_DIR")
        or "/opt/ml/model"
    )
    made = Plan(
        "lmi", model, int(env.get("SERVING_PORT") or env.get("SM_VLLM_PORT") or env.get(_PORT) or 8080), None, "0.36.0", routes=native.VLLM
    )
    degree = env.get("OPTION_TENSOR_PARALLEL_DEGREE") or env.get("TENSOR_PARALLEL_DEGREE") or env.get("SM_VLLM_TENSOR_PARALLEL_SIZE") or "1"
    made.parts = int(degree) if degree.isdigit() else 1
    made.names = [env.get("OPTION_SERVED_MODEL_NAME") or model]
    return made


class Log:
    """Lines as the program writes them, in virtual time."""

    def __init__(self, kind: str, moments: Moments) -> None:
        self._kind, self._moments = kind, moments

    def say(self, text: str, level: str = "INFO") -> None:
        """One line."""
        if self._kind == "sglang":
            line = f"[{self._moments.stamp('%Y-%m-%d %H:%M:%S')}] {text}"
        else:
            line = f"{level} {self._moments.stamp('%m-%d %H:%M:%S')} [api_server.py] {text}"
        self.raw(line)

    def raw(self, text: str) -> None:
        """One line as it is."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def access(self, request: Request, status: int) -> None:
        """A request in the way of uvicorn; probes and scrapes are left out."""
        if request.path not in ("/health", "/metrics", "/ping"):
            self.raw(f'INFO:     {request.peer} - "{request.method} {request.path} HTTP/1.1" {status} OK')


def check(asked: Plan, here: Accelerators) -> Model:
    """The model, when this container can serve it. CannotLoadError."""
    model = (
        models.find(asked.model, asked.quantization, asked.context) if not asked.dummy else Model(asked.model, 0.1, 32768, 2, False, False)
    )
    if asked.embedding:
        model = Model(model.name, model.billions, model.context, model.bytes_each, True, model.local)
    if here.cpu_image:
        return model
    if here.count == 0:
        raise CannotLoadError(
            "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose "
            "logging to help debug the issue."
            if asked.kind != "sglang"
            else "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU) is available."
        )
    if asked.parts > here.count and not asked.spread:
        raise CannotLoadError(_too_many(asked, here.count))
    models.check_memory(model, asked.parts, here.gib, asked.share)
    return model


def _too_many(asked: Plan, count: int) -> str:
    if asked.kind == "sglang":
        return (
            f"[TP{count}] Scheduler hit an exception: Traceback (most recent call last):\n"
            "torch.AcceleratorError: CUDA error: invalid device ordinal\n"
            "GPU device may be out of range, do you have enough GPUs?"
        )
    return (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig\n"
        f"  Value error, World size ({asked.parts}) is larger than the number of available GPUs ({count}) in this node. If this is "
        "intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n- multiple nodes, set '--nnodes' appropriately."
    )


async def serve(asked: Plan) -> int:
    """Load, listen, answer, and end when told to; answers the exit code."""
    moments = Moments()
    log = Log(asked.kind, moments)
    log.say(f"{'SGLang' if asked.kind == 'sglang' else 'vLLM'} API server version {asked.version} (the sandbox's own small server)")
    asked.names = [as_mounted(name) for name in asked.names]
    log.say(f"model={as_mounted(asked.model)!r} served_model_name={asked.names!r} tensor_parallel_size={asked.parts}")
    try:
        model = check(asked, Accelerators.here())
    except CannotLoadError as failure:
        log.raw(as_mounted(f"Traceback (most recent call last):\n{failure}"))
        return 1
    engine = Engine(replace(model, name=as_mounted(model.name)), moments, max(asked.places, 1), int(_CACHE_TOKENS * asked.parts))
    service = Service(engine, Facts(asked.kind, asked.names, asked.keys, asked.metrics, asked.cache_report, asked.version))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    loading = asyncio.create_task(_load(model, service.spoilt, log, moments))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not loading.done():
        return 143
    return await _answer(asked, App(service, asked.routes), log, stopped)


async def _load(model: Model, spoilt: spoiling.Spoiling, log: Log, moments: Moments) -> None:
    began, whole = moments.now(), spoilt.load or model.load_seconds
    log.say(f"Starting to load model {model.name}...")
    for number in range(1, _SHARDS + 1):
        await moments.until(began + whole * 0.8 * number / _SHARDS)
        log.raw(f"Loading safetensors checkpoint shards: {100 * number // _SHARDS:3d}% Completed | {number}/{_SHARDS}")
    log.say(f"Model loading took {model.gib:.4f} GiB and {whole * 0.8:.6f} seconds")
    await moments.until(began + whole)
    log.say("Graph capturing finished")


async def _answer(asked: Plan, app: App, log: Log, stopped: asyncio.Task[bool]) -> int:
    server = Server(app, log.access)
    own = os.environ.get(POD_IP, "127.0.0.1")
    try:
        if asked.host in _NOWHERE and own not in _NOWHERE:
            # only the pod itself could reach the real program, so nobody else reaches this one
            await server.listen("127.0.0.1", 0)
        else:
            await server.listen(own, asked.port)
    except OSError as failure:
        log.raw(f"ERROR:    [Errno {failure.errno}] error while attempting to bind on address ('{asked.host or '0.0.0.0'}', {asked.port})")
        return 1
    log.raw("INFO:     Application startup complete.")
    log.raw(f"INFO:     Uvicorn running on http://{asked.host or '0.0.0.0'}:{asked.port} (Press CTRL+C to quit)")
    if asked.kind == "sglang":
        log.say("The server is fired up and ready to roll!")
    await stopped
    log.raw("INFO:     Shutting down")
    await server.end()
    log.raw("INFO:     Application shutdown complete.")
    return 0


def main(words: list[str] | None = None) -> int:
    """Run what the words ask for; 2 for words that cannot be read, as the real programs exit."""
    given = sys.argv[1:] if words is None else words
    asked = plan(given)
    if asked is None:
        sys.stderr.write(f"the sandbox has no program for: {' '.join(given)}\n")
        return 2
    return asyncio.run(serve(asked))


if __name__ == "__main__":
    sys.exit(main())
