"""The arguments of ``python3 -m sglang.launch_server`` (SGLang 0.4 to 0.5: the union of their flags)."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from .flags import Flags

VERSION = "0.5.4"
_SWITCHES = """
 skip-tokenizer-init trust-remote-code is-embedding enable-multimodal grpc-mode skip-server-warmup
 checkpoint-engine-wait-weights-before-ready enable-fp32-lm-head quantize-and-serve enable-quant-communications
 enable-dynamic-chunking enable-priority-scheduling abort-on-priority-when-disabled schedule-low-priority-values-first
 disable-hybrid-swa-memory enable-prefill-delayer incremental-streaming-output stream-output constrained-json-disable-any-whitespace
 sleep-on-idle log-requests show-time-cost enable-metrics enable-mfu-metrics enable-metrics-for-all-schedulers
 collect-tokens-histogram enable-request-time-stats-logging enable-trace export-metrics-to-file enable-cache-report
 enable-lora enable-lora-overlap-loading disable-flashinfer-autotune enable-multi-layer-eagle enable-flashinfer-allreduce-fusion
 enable-aiter-allreduce-fusion enable-fused-grouped-gemm-combine enable-eplb enable-expert-distribution-metrics
 enable-elastic-expert-backup enable-deepep-waterfill elastic-ep-rejoin enable-hierarchical-cache enable-lmcache
 disable-radix-cache disable-cuda-graph disable-cuda-graph-padding enable-profile-cuda-graph enable-cudagraph-gc
 enable-layerwise-nvtx-marker enable-nccl-nvls enable-symm-mem disable-flashinfer-cutlass-moe-fp4-allgather
 enable-tokenizer-batch-encode disable-tokenizer-batch-decode disable-outlines-disk-cache disable-custom-all-reduce enable-mscclpp
 enable-torch-symm-mem disable-overlap-schedule enable-mixed-chunk enable-dp-attention enable-dp-lm-head enable-two-batch-overlap
 enable-single-batch-overlap enable-torch-compile enable-torch-compile-debug-mode enable-piecewise-cuda-graph
 disable-piecewise-cuda-graph enforce-piecewise-cuda-graph enable-nan-detection enable-p2p-check triton-attention-reduce-in-fp32
 delete-ckpt-after-loading enable-memory-saver enable-weights-cpu-backup enable-draft-weights-cpu-backup allow-auto-truncate
 enable-custom-logit-processor flashinfer-mla-disable-ragged disable-shared-experts-fusion disable-chunked-prefix-cache
 disable-fast-image-processor keep-mm-feature-on-device enable-return-hidden-states enable-return-routed-experts
 enable-deterministic-inference enable-attn-tp-input-scattered enable-dsa-prefill-context-parallel enable-nsa-prefill-context-parallel
 enable-fused-qk-norm-rope enable-precise-embedding-interpolation enable-dynamic-batch-tokenizer
 disaggregation-decode-enable-offload-kvcache encoder-only language-only weight-loader-disable-mmap
 weight-loader-prefetch-checkpoints remote-instance-weight-loader-start-seed-via-transfer-engine enable-pdmux
 enable-broadcast-mm-inputs-process mm-enable-dp-encoder enable-mm-global-cache enable-prefix-mm-cache enable-ep-moe
 enable-deepep-moe prefill-round-robin-balance enable-flashinfer-cutlass-moe enable-flashinfer-cutedsl-moe
 enable-flashinfer-trtllm-moe enable-triton-kernel-moe enable-flashinfer-mxfp4-moe disable-jump-forward disable-mla
 enable-flashinfer-mla enable-double-sparsity enable-llama4-multimodal disable-overlap-cg-plan disable-nan-detection
"""
_TEXTS = """
 model-path|model tokenizer-path model-loader-extra-config revision model-impl host fastapi-root-path warmups
 quantization-param-path modelopt-quant modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path
 rl-quant-profile device constrained-json-whitespace-pattern download-dir model-checksum custom-sigquit-handler log-level
 log-level-http crash-dump-folder tokenizer-metrics-custom-labels-header kv-events-config otlp-traces-endpoint
 export-metrics-to-file-dir api-key admin-api-key served-model-name weight-version chat-template hf-chat-template-name
 completion-template file-storage-path file-storage-pth reasoning-parser tool-call-parser tool-server
 dist-init-addr|nccl-init-addr json-model-override-args preferred-sampling-params dsa-prefill-backend dsa-decode-backend
 nsa-prefill-backend nsa-decode-backend nsa-prefill nsa-decode fp8-gemm-backend fp4-gemm-backend
 speculative-draft-model-path|speculative-draft-model speculative-draft-model-revision speculative-draft-load-format
 speculative-token-map speculative-draft-attention-backend speculative-moe-runner-backend speculative-moe-a2a-backend
 speculative-draft-model-quantization speculative-ngram-match-type moe-a2a-backend moe-runner-backend
 flashinfer-mxfp4-moe-precision deepep-dispatcher-output-dtype ep-dispatch-algorithm init-expert-location eplb-algorithm
 expert-distribution-recorder-mode deepep-config elastic-ep-backend mooncake-ib-device mamba-ssm-dtype mamba-scheduler-strategy
 hicache-storage-backend hicache-storage-backend-extra-config hierarchical-sparse-attention-extra-config kt-weight-path kt-method
 dllm-algorithm dllm-algorithm-config offload-mode piecewise-cuda-graph-tokens torchao-config rl-on-policy-target
 dsa-prefill-cp-mode nsa-prefill-cp-mode debug-tensor-dump-output-folder debug-tensor-dump-layers debug-tensor-dump-input-file
 debug-tensor-dump-inject disaggregation-ib-device encoder-transfer-backend encoder-urls
 remote-instance-weight-loader-seed-instance-ip remote-instance-weight-loader-send-weights-group-ports
 remote-instance-weight-loader-backend pdmux-config-path config mm-process-config limit-mm-data-per-request
 decrypted-config-file decrypted-draft-config-file forward-hooks msprobe-dump-config crash-on-nan attention-backend
 prefill-attention-backend decode-attention-backend mm-attention-backend load-balance-method lora-backend quantization
"""
_INTS = """
 tokenizer-worker-num context-length port nccl-port max-running-requests max-queued-requests max-total-tokens
 chunked-prefill-size prefill-max-requests max-prefill-tokens priority-scheduling-preemption-threshold page-size
 prefill-delayer-max-delay-passes tensor-parallel-size|tp-size|tp pipeline-parallel-size|pp-size|pp
 attention-context-parallel-size|attn-cp-size moe-data-parallel-size|moe-dp-size pp-max-micro-batch-size pp-async-batch-depth
 stream-interval random-seed dist-timeout base-gpu-id gpu-id-step decode-log-interval data-parallel-size|dp-size|dp nnodes node-rank
 max-lora-rank max-loras-per-batch max-loaded-loras max-lora-chunk-size speculative-num-steps speculative-eagle-topk
 speculative-num-draft-tokens speculative-ngram-min-bfs-breadth speculative-ngram-max-bfs-breadth speculative-ngram-max-trie-depth
 speculative-ngram-capacity expert-parallel-size|ep-size|ep ep-num-redundant-experts eplb-rebalance-num-iterations
 eplb-rebalance-layers-per-chunk expert-distribution-recorder-buffer-size moe-dense-tp-size max-mamba-cache-size
 mamba-track-interval hicache-size kt-cpuinfer kt-threadpool-count kt-num-gpu-experts kt-max-deferred-experts-per-token
 cpu-offload-gb offload-group-size offload-num-in-group offload-prefetch-step multi-item-scoring-delimiter cuda-graph-max-bs
 torch-compile-max-bs piecewise-cuda-graph-max-tokens triton-attention-num-kv-splits triton-attention-split-tile-size
 num-continuous-decode-steps scheduler-recv-interval dynamic-batch-tokenizer-batch-size disaggregation-bootstrap-port
 num-reserved-decode-tokens disaggregation-decode-polling-interval weight-loader-prefetch-num-threads
 remote-instance-weight-loader-seed-instance-service-port sm-group-num mm-max-concurrent-calls
"""
_FLOATS = """
 mem-fraction-static schedule-conservativeness swa-full-tokens-ratio prefill-delayer-token-usage-low-watermark
 prefill-delayer-queue-min-ratio prefill-delayer-max-delay-ms watchdog-timeout soft-watchdog-timeout gc-warning-threshold-secs
 lora-drain-wait-threshold speculative-accept-threshold-single speculative-accept-threshold-acc
 eplb-min-rebalancing-utilization-threshold mamba-full-memory-ratio hicache-ratio tbo-token-distribution-threshold
 dynamic-batch-tokenizer-batch-timeout mm-per-request-timeout hybrid-kvcache-ratio load-watch-interval
"""
_MANY = """
 log-requests-target uvicorn-access-log-exclude-prefixes tokenizer-metrics-allowed-custom-labels bucket-time-to-first-token
 bucket-inter-token-latency bucket-e2e-request-latency prompt-tokens-buckets generation-tokens-buckets lora-target-modules lora-paths
 cuda-graph-bs numa-node custom-weight-loader prefill-delayer-forward-passes-buckets prefill-delayer-wait-seconds-buckets
"""
_CHOICES = {
    "tokenizer-mode": "auto slow",
    "load-format": "auto pt safetensors npcache dummy sharded_state gguf bitsandbytes layered flash_rl remote remote_instance "
    "fastsafetensors private runai_streamer",
    "dtype": "auto half float16 bfloat16 float float32",
    "kv-cache-dtype": "auto fp8_e5m2 fp8_e4m3 bf16 bfloat16 fp4_e2m1",
    "schedule-policy": "lpm random fcfs dfs-weight lof priority routing-key",
    "radix-eviction-policy": "lru lfu",
    "log-requests-level": "0 1 2 3",
    "log-requests-format": "text json",
    "sampling-defaults": "openai model",
    "lora-eviction-policy": "lru fifo",
    "sampling-backend": "flashinfer pytorch ascend",
    "grammar-backend": "xgrammar outlines llguidance none",
    "speculative-algorithm": "EAGLE EAGLE3 NEXTN STANDALONE NGRAM",
    "speculative-attention-mode": "prefill decode",
    "deepep-mode": "normal low_latency auto",
    "hicache-write-policy": "write_back write_through write_through_selective",
    "hicache-io-backend": "direct kernel kernel_ascend",
    "hicache-mem-layout": "layer_first page_first page_first_direct page_first_kv_split page_head",
    "hicache-storage-prefetch-policy": "best_effort wait_complete timeout",
    "piecewise-cuda-graph-compiler": "eager inductor",
    "disaggregation-mode": "null prefill decode",
    "disaggregation-transfer-backend": "mooncake nixl ascend fake",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The arguments, or an exit with 2 and the reason in the log."""
    made = _Parser(prog="launch_server.py", usage="launch_server.py [-h] --model-path MODEL_PATH [options]")
    flags = Flags(made)
    flags.switches(_SWITCHES)
    flags.texts(_TEXTS)
    flags.numbers(_INTS)
    flags.numbers(_FLOATS, float)
    flags.many(_MANY)
    flags.choices(_CHOICES)
    given = made.parse_args(arguments)
    if not given.model_path and not given.config:
        made.error("the following arguments are required: --model-path/--model")
    return given
