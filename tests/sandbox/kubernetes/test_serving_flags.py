"""Lines as the documentation of vLLM and SGLang has them are read; what they would refuse is refused."""

from __future__ import annotations

import shlex

import pytest

from instantstart_sandbox.kubernetes.kubelet import served
from instantstart_sandbox.programs.serving.__main__ import Plan, plan

VLLM = [
    "vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 4 --api-key token-abc123",
    "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 2 -pp 2 --gpu-memory-utilization=0.95 --max-model-len 32k --max-num-seqs 64",
    "vllm serve deepseek-ai/DeepSeek-R1 --tensor_parallel_size 8 --enable-reasoning --reasoning-parser deepseek_r1 --trust-remote-code",
    'vllm serve org/m --speculative-config \'{"method":"mtp","num_speculative_tokens":2}\' --port 8000',
    "vllm serve Qwen/Qwen3-30B-A3B -dp 8 --enable-expert-parallel --no-enable-prefix-caching -O3 --async-scheduling",
    'vllm serve llava-hf/llava-1.5-7b-hf --limit-mm-per-prompt image=2,video=1 --chat-template "a b.jinja"',
    "vllm serve llava-hf/llava-1.5-7b-hf --limit-mm-per-prompt.image 2 --mm-processor-kwargs '{\"num_crops\": 4}'",
    "vllm serve Qwen/Qwen2.5-72B-Instruct-AWQ -q awq --served-model-name a b --enable-auto-tool-choice --tool-call-parser hermes",
    'vllm serve intfloat/e5-mistral-7b-instruct --runner pooling --convert embed --rope-scaling \'{"rope_type":"yarn","factor":4.0}\'',
    'vllm serve m/m --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1"}\' --compilation-config \'{"level": 3}\'',
    "vllm serve m/m --enable-lora --lora-modules sql=/adapters/sql --max-lora-rank 64 --generation-config vllm --dtype bfloat16",
    "python3 -m vllm.entrypoints.openai.api_server --model facebook/opt-125m --host 0.0.0.0 --swap-space 16 --disable-log-requests",
]
SGLANG = [
    "python3 -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-8B-Instruct --host 0.0.0.0 --port 30000 --tp 2",
    "python -m sglang.launch_server --model m/m --dp 2 --tp 2 --mem-fraction-static 0.7 --chunked-prefill-size 4096 --enable-metrics",
    "python3 -m sglang.launch_server --model-path m/m --quantization fp8 --kv-cache-dtype fp8_e5m2 --schedule-policy lpm",
    "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --dist-init-addr 10.0.0.1:5000 --nnodes 2 --node-rank 0",
    "python3 -m sglang.launch_server --model-path m/m --speculative-algorithm EAGLE --speculative-draft-model-path d/d",
    "python3 -m sglang.launch_server --model-path m/m --lora-paths a=/l/a b=/l/b --disable-radix-cache --is-embedding",
]


def read(line: str) -> Plan:
    found = plan(shlex.split(line))
    assert found is not None
    return found


@pytest.mark.parametrize("line", [*VLLM, *SGLANG])
def test_a_line_of_the_documentation_is_read(line: str) -> None:
    assert read(line).model
    assert served.of_words(shlex.split(line)) is not None


def test_what_the_lines_say() -> None:
    assert read(VLLM[0]).keys == ["token-abc123"]
    assert (read(VLLM[1]).parts, read(VLLM[1]).context, read(VLLM[1]).share) == (4, 32000, 0.95)
    assert read(VLLM[7]).names == ["a", "b"]
    assert read(VLLM[8]).embedding
    assert (read(VLLM[11]).port, read(VLLM[11]).host) == (8000, "0.0.0.0")
    assert (read(SGLANG[0]).parts, read(SGLANG[0]).metrics) == (2, False)
    assert (read(SGLANG[1]).parts, read(SGLANG[1]).metrics) == (4, True)
    assert read(SGLANG[2]).host == "127.0.0.1"
    assert read(SGLANG[3]).spread


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m/m --tensor-parallel",
        "vllm serve m/m --tensor-parallel-size two",
        "vllm serve m/m --speculative-config '{method:mtp}'",
        "vllm serve m/m --dtype float17",
        "vllm serve m/m extra",
        "python3 -m sglang.launch_server --port 30000",
        "python3 -m sglang.launch_server --model-path m/m --no-such-flag",
    ],
)
def test_a_wrong_line_ends_with_two(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        plan(shlex.split(line))
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("image", "words", "program"),
    [
        ("vllm/vllm-openai:v0.11.0", ["--model", "m"], "vllm"),
        ("public.ecr.aws/deep-learning-containers/vllm:0.11-gpu", ["m"], "vllm"),
        ("lmsysorg/sglang:v0.5.4", ["python3", "-m", "sglang.launch_server", "--model-path", "m"], "sglang"),
        ("lmsysorg/sglang-router:v0.2", ["--policy", "random"], "launch"),
        ("registry.example/djl-inference:0.36.0-lmi18", [], "lmi"),
    ],
)
def test_an_image_without_a_command(image: str, words: list[str], program: str) -> None:
    from instantstart_sandbox.kubernetes.kubelet.programs import Asked, find

    row = find(image, "")
    assert row is not None
    started = row.launch(Asked(image, words))
    assert started is not None
    assert any(program in word for word in started[5:])
