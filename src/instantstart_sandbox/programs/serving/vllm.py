"""The arguments of ``vllm serve`` and of ``python3 -m vllm.entrypoints.openai.api_server`` (vLLM 0.8 to 0.2x: the union of their flags)."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from .flags import Flags, human_int, json_or_counts

VERSION = "0.11.0"
_SWITCHES = """
 allow-credentials disable-uvicorn-access-log enable-ssl-refresh enable-request-id-headers disable-fastapi-docs headless
 disable-frontend-multiprocessing return-tokens-as-token-ids enable-auto-tool-choice enable-server-load-tracking
 disable-log-requests enable-log-outputs enable-force-include-usage enable-tokenizer-info-endpoint log-config-enabled
 worker-use-ray use-v2-block-manager disable-logprobs-during-spec-decoding enable-lora-bias enable-prompt-adapter
 data-parallel-hybrid-lb data-parallel-external-lb enable-offline-docs log-error-stack tokens-only enable-per-request-metrics
"""
_PAIRS = """
 trust-remote-code enforce-eager disable-sliding-window disable-cascade-attn skip-tokenizer-init enable-prompt-embeds
 disable-log-stats enable-prefix-caching enable-chunked-prefill enable-expert-parallel enable-lora fully-sharded-loras
 enable-sleep-mode disable-custom-all-reduce ray-workers-use-nsight multi-step-stream-outputs disable-async-output-proc
 enable-reasoning use-tqdm-on-load calculate-kv-scales enable-dbo enable-eplb async-scheduling disable-mm-preprocessor-cache
 enable-log-requests disable-chunked-mm-input disable-hybrid-kv-cache-manager interleave-mm-strings skip-mm-profiling
 override-attention-dtype-enabled show-hidden-metrics disable-nccl-for-dp-synchronization enable-prompt-tokens-details
 enable-return-routed-experts language-model-only exclude-tools-when-tool-choice-none trust-request-chat-template
 kv-sharing-fast-prefill enable-multimodal-encoder-data-parallel aggregate-engine-logging enable-mfu-metrics kv-cache-metrics
 cudagraph-metrics enable-layerwise-nvtx-tracing enable-logging-iteration-details enable-mm-embeds enable-log-deltas
 enable-flash-late-interaction enable-tower-connector-lora specialize-active-lora enable-elastic-ep async-engine
"""
_TEXTS = """
 host uds uvicorn-log-level api-key-file ssl-keyfile ssl-certfile ssl-ca-certs ssl-ciphers root-path chat-template response-role
 tool-call-parser tool-parser-plugin tool-server log-config-file config model tokenizer hf-config-path revision code-revision
 tokenizer-revision hf-token allowed-local-media-path download-dir generation-config model-impl logits-processor-pattern
 load-format quantization|q guided-decoding-backend speculative-model ngram-prompt-lookup-min qlora-adapter-name-or-path
 quantization-param-path otlp-traces-endpoint worker-cls worker-extension-cls scheduler-cls distributed-executor-backend
 reasoning-parser reasoning-parser-plugin override-attention-dtype lora-dtype device pt-load-map-location model-weights
 data-parallel-address data-parallel-backend mm-encoder-attn-backend attention-backend kv-cache-dtype mamba-cache-dtype
 mamba-ssm-cache-dtype mamba-block-size mamba-cache-mode prefix-caching-hash-algo expert-placement-strategy all2all-backend
 master-addr logprobs-mode show-hidden-metrics-for-version collect-detailed-traces io-processor-plugin safetensors-load-strategy
 kv-offloading-backend moe-backend tokenizer-pool-type tokenizer-pool-extra-config task hf-overrides-file mm-processor-cache-type
 mm-encoder-tp-mode dcp-comm-backend stream-interval-mode disable-access-log-for-endpoints default-mm-loras-path renderer-cls
 fingerprint-mode fingerprint-value cohere-format performance-mode linear-backend optimization-level-name
"""
_INTS = """
 port ssl-cert-reqs max-log-len tensor-parallel-size|tp pipeline-parallel-size|pp data-parallel-size|dp data-parallel-size-local|dpl
 data-parallel-rank|dpn data-parallel-start-rank|dpr data-parallel-rpc-port|dpp prefill-context-parallel-size|pcp
 decode-context-parallel-size|dcp nnodes node-rank master-port max-parallel-loading-workers block-size seed max-seq-len-to-capture
 max-logprobs num-gpu-blocks-override max-num-seqs max-num-partial-prefills max-long-partial-prefills long-prefill-token-threshold
 num-lookahead-slots max-loras max-lora-rank max-cpu-loras lora-extra-vocab-size max-prompt-adapters max-prompt-adapter-token
 num-scheduler-steps num-speculative-tokens speculative-max-model-len speculative-disable-by-batch-size ngram-prompt-lookup-max
 api-server-count h11-max-incomplete-event-size h11-max-header-count stream-interval dbo-decode-token-threshold
 dbo-prefill-token-threshold num-redundant-experts ubatch-size eplb-window-size eplb-step-interval mm-processor-cache-gb-int
 tokenizer-pool-size data-parallel-supervisor-port dcp-kv-cache-interleave-size cp-kv-cache-interleave-size shutdown-timeout
 video-pruning-count
"""
_SIZES = "max-model-len max-num-batched-tokens kv-cache-memory-bytes max-num-encoder-tokens"
_FLOATS = """
 gpu-memory-utilization swap-space cpu-offload-gb scheduler-delay-factor mm-processor-cache-gb mm-shm-cache-max-object-size-mb
 kv-offloading-size video-pruning-rate rope-theta dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s
 typical-acceptance-sampler-posterior-threshold typical-acceptance-sampler-posterior-alpha
"""
_DOCUMENTS = """
 rope-scaling hf-overrides mm-processor-kwargs media-io-kwargs override-neuron-config override-pooler-config
 pooler-config speculative-config kv-transfer-config kv-events-config ec-transfer-config additional-config
 override-generation-config model-loader-extra-config default-mm-loras structured-outputs-config eplb-config profiler-config
 attention-config kernel-config default-chat-template-kwargs weight-transfer-config mamba-config reasoning-config
 allowed-origins allowed-methods allowed-headers
"""
_MANY = """
 served-model-name lora-modules prompt-adapters ignore-patterns middleware api-key long-lora-scaling-factors logits-processors
 cuda-graph-sizes cudagraph-capture-sizes
"""
_CHOICES = {
    "dtype": "auto half float16 bfloat16 float float32",
    "tokenizer-mode": "auto slow mistral custom hf deepseek_v32 deepseek_v4 cohere",
    "config-format": "auto hf mistral",
    "chat-template-content-format": "auto string openai",
    "scheduling-policy": "fcfs priority",
    "preemption-mode": "recompute swap",
    "runner": "auto generate pooling draft",
    "convert": "auto none embed classify reward mm_encoder_only",
}
_SHORT = re.compile(r"^-(tp|pp|dp|dpl|dpn|dpr|dpp|pcp|dcp|dpa|dpb|ep|sc|ac)$")


class _Parser(argparse.ArgumentParser):
    """Takes underscores for dashes and ``--flag.key value`` for a document's entry, as vLLM's own parser does."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(_plain(given), namespace)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\n")


def _plain(arguments: list[str]) -> list[str]:
    found: list[str] = []
    skip = False
    for number, argument in enumerate(arguments):
        if skip:
            skip = False
            continue
        if _SHORT.match(argument):
            argument = f"-{argument}"
        name, mark, value = argument.partition("=")
        if argument.startswith("--") and "." in name:
            # a single entry of a document: its own value follows, and the rest of the document has its defaults
            skip = not mark and number + 1 < len(arguments)
            continue
        found.append(f"{name.replace('_', '-')}{mark}{value}" if argument.startswith("--") else argument)
    return found


def parser(prog: str, positional: bool) -> argparse.ArgumentParser:
    """The parser; ``positional``: the model may come first, as ``vllm serve`` takes it."""
    made = _Parser(prog=prog, usage=f"{prog} [model_tag] [options]" if positional else f"{prog} [options]")
    flags = Flags(made)
    flags.switches(_SWITCHES)
    flags.pairs(_PAIRS)
    flags.texts(_TEXTS)
    flags.numbers(_INTS)
    flags.numbers(_SIZES, human_int)
    flags.numbers(_FLOATS, float)
    flags.documents(_DOCUMENTS)
    flags.many(_MANY)
    made.add_argument("--limit-mm-per-prompt", type=json_or_counts)
    flags.choices(_CHOICES)
    made.add_argument("-O", "--compilation-config", "--optimization-level", dest="compilation_config")
    if positional:
        made.add_argument("model_tag", nargs="?")
    return made


def parse(arguments: list[str], positional: bool) -> argparse.Namespace:
    """The arguments, or an exit with 2 and the reason in the log."""
    prog = "vllm serve" if positional else "api_server.py"
    made = parser(prog, positional)
    given = made.parse_args(arguments)
    config = getattr(given, "config", None)
    if config:
        given = made.parse_args([*_from_file(made, config), *arguments])
    if positional and given.model_tag is not None:
        given.model = given.model_tag
    given.model = given.model or "Qwen/Qwen3-0.6B"
    if given.enable_auto_tool_choice and not given.tool_call_parser:
        raise SystemExit("TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser")
    return given


def _from_file(made: argparse.ArgumentParser, path: str) -> list[str]:
    """Arguments from a file of ``key: value`` lines (YAML's simple part)."""
    if not path.endswith((".yaml", ".yml")):
        made.error("The config file must be of a yaml type. " + path)
    if not Path(path).is_file():
        made.error(f"argument --config: can't open '{path}'")
    found = []
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition("#")[0].partition(":")
        key, value = key.strip(), value.strip().strip("\"'")
        if key == "model":
            found += ["--model", value]
        elif key and value.lower() == "true":
            found.append(f"--{key}")
        elif key and value and value.lower() != "false":
            found += [f"--{key}", value]
    return found
