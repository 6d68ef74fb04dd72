"""Commands as people paste them: taken apart as a shell takes them, run by none, and every reason why not told with its place."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instantstart.ensure.inference import servers, serving
from instantstart.ensure.running import commands

#: lines of the documentation of vLLM and SGLang, as they stand there
VLLM = [
    "vllm serve Qwen/Qwen2.5-1.5B-Instruct",
    "vllm serve facebook/opt-13b --tensor-parallel-size 4",
    "vllm serve gpt2 --tensor-parallel-size 4 --pipeline-parallel-size 2",
    "vllm serve Qwen/Qwen2-VL-7B-Instruct --max-model-len 16384 --limit-mm-per-prompt '{\"image\": 1}'",
    "vllm serve meta-llama/Llama-2-7b-hf --enable-lora --lora-modules sql-lora=$HOME/models/sql-lora",
    """vllm serve meta-llama/Meta-Llama-3-8B-Instruct -tp 1 --seed 42 \\
    --speculative-config '{"model": "yuhuili/EAGLE-LLaMA3-Instruct-8B", "draft_tensor_parallel_size": 1, "num_speculative_tokens": 2}'""",
    """vllm serve NousResearch/Meta-Llama-3-8B-Instruct \\
  --dtype auto \\
  --api-key token-abc123""",
    """python3 -m vllm.entrypoints.openai.api_server --model "mistralai/Mistral-7B-v0.1" --rope-scaling '{"type":"dynamic","factor":2}'""",
]
SGLANG = [
    "python -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-8B-Instruct --tp 2",
    "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --enable-dp-attention --dp 8 --trust-remote-code",
    """python -m sglang.launch_server --model-path meta-llama/Meta-Llama-3.1-8B-Instruct \\
 --json-model-override-args '{"architectures": ["LlamaForCausalLM"]}' --host 0.0.0.0 --port 30000""",
    'python3 -m sglang.launch_server --model-path qwen/qwen2.5-0.5b-instruct --host 0.0.0.0 --chat-template "my template.jinja"',
    "sglang serve --model-path meta-llama/Llama-2-7b-hf --port 30000",
]


@pytest.mark.parametrize("line", [*VLLM, *SGLANG])
def test_lines_of_the_documentation_keep_their_quotes(line: str) -> None:
    found = commands.parse(line)
    assert found.wrong == []
    assert found.argv == shlex.split(line.replace("\\\n", ""))
    assert serving.engine_of(found.argv) == ("vllm" if line in VLLM else "sglang")
    assert str(serving.model_of(serving.engine_of(found.argv), found.argv)) in line
    assert commands.parse(commands.shown(found.argv)).argv == found.argv, "the line that is shown gives the same argv again"


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("vllm serve --tensor-parallel-size 2 Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("vllm serve --dtype=auto --max-model-len 4096 gpt2 --port 80", "gpt2"),
        ("vllm serve --enforce-eager --trust-remote-code Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("vllm serve --no-enable-prefix-caching --tokenizer org/tok Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("vllm serve --a-new-switch Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("vllm serve --a-new-switch /models/qwen --tp 2", "/models/qwen"),
        ("vllm serve --tokenizer org/tok --port 80", None),
        ("vllm serve --port 80", None),
        ("vllm serve", None),
        ("python3 -m sglang.launch_server --tp 2 --trust-remote-code --model-path Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
    ],
)
def test_the_model_is_found_behind_flags_too(line: str, model: str | None) -> None:
    argv = commands.parse(line).argv
    assert serving.model_of(serving.engine_of(argv), argv) == model


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_matter(ending: str) -> None:
    line = VLLM[5]
    assert commands.parse(line.replace("\n", ending)).argv == commands.parse(line).argv
    assert commands.parse(line.replace(" \\\n", ending)).argv == commands.parse(line).argv, "lines without a backslash are one command too"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vllm serve 'org/m", "The quote ' at line 1, column 12"),
        ('vllm serve x \\\n --a "b', 'The quote " at line 2, column 6'),
        ("vllm serve “org/m”", 'is a typographic character: write "'),
        ("vllm serve m –tp 2", "is a typographic character: write -"),
        ("vllm serve m && rm -rf /", "& at line 1, column 14"),
        ("vllm serve m 2>&1 | tee log", "means something to a shell"),
        ("vllm serve `id`", "means something to a shell"),
        ("vllm serve $(id -u)", "means something to a shell"),
        ('vllm serve "a`id`"', "means something to a shell"),
        ("vllm serve m ; id", "means something to a shell"),
        ("vllm serve m # the small one", "A comment begins"),
        ("vllm serve m \\ \n --tp 2", "A blank follows the backslash"),
        ("vllm serve m \\", "ends with a backslash"),
        ("vllm serve a\x00b", "A control character"),
        ("$ vllm serve m", "$ at the beginning is the prompt"),
        ("CUDA_VISIBLE_DEVICES=0 vllm serve m", "put CUDA_VISIBLE_DEVICES into env"),
        ("docker run --gpus all vllm/vllm-openai:latest --model m", "docker runs on your machine"),
    ],
)
def test_what_only_a_shell_or_a_slip_could_mean_is_refused(text: str, words: str) -> None:
    found = commands.parse(text)
    assert words in " ".join(found.wrong)


@pytest.mark.parametrize(
    ("text", "argv", "doubt"),
    [
        ("x --host $(POD_IP)", ["x", "--host", "$(POD_IP)"], "Kubernetes fills in the variable"),
        ("x --dir $HOME/m", ["x", "--dir", "$HOME/m"], "no shell fills in its variable"),
        ('x --config {"a":1}', ["x", "--config", "{a:1}"], "looks like JSON that lost its quotes"),
        ("x '$(id) && `rm`' \"it's\"", ["x", "$(id) && `rm`", "it's"], "Kubernetes fills in the variable"),
        ("x --template 'a # b'", ["x", "--template", "a # b"], None),
        ("--model org/m", ["--model", "org/m"], None),
        ("", [], None),
        ("x ''", ["x", ""], None),
        ("x 'a\nb'", ["x", "a\nb"], None),
    ],
)
def test_what_is_taken_literally_is_told(text: str, argv: list[str], doubt: str | None) -> None:
    found = commands.parse(text)
    assert (found.argv, found.wrong) == (argv, [])
    assert (doubt is None and not found.doubts) or (doubt is not None and doubt in " ".join(found.doubts))


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs", "Cc")), max_size=12), max_size=6))
def test_any_argv_comes_back_from_the_line_that_is_shown(argv: list[str]) -> None:
    shown = commands.shown(["prog", *argv])
    assert commands.parse(shown).argv == ["prog", *argv]


def test_a_server_that_needs_more_to_be_reached_gets_it_and_it_is_told() -> None:
    argv = SGLANG[0].split()
    assert servers.added("sglang", argv, 30000) == ("--host", "0.0.0.0", "--enable-metrics")
    assert servers.added("sglang", [*argv, "--host", "0.0.0.0", "--enable-metrics"], 8000) == ("--port", "8000")
    assert servers.added("vllm", VLLM[0].split(), 8000) == ()
    assert servers.added("vllm", ["vllm", "serve", "m"], 9000) == ("--port", "9000")
    assert servers.added("vllm", ["vllm", "serve", "m", "--port=9000"], 9000) == ()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("vllm serve m -tp 2 --pipeline-parallel-size=2", (2, 2, 1)),
        ("vllm serve m --data-parallel-size 4", (1, 1, 4)),
        ("vllm serve m --tensor_parallel_size=2", (2, 1, 1)),
        ("vllm serve m", None),
    ],
)
def test_parallelism_is_read_from_the_command(argv: str, told: tuple[int, int, int] | None) -> None:
    assert serving.parallelism("vllm", argv.split()) == told


@pytest.mark.parametrize(
    ("model", "least", "most"),
    [("meta-llama/Llama-3.1-8B-Instruct", 900, 1500), ("mistralai/Mixtral-8x7B-v0.1", 2500, 4000), ("org/no-size", 1800, 2400)],
)
def test_the_startup_probe_is_sized_to_the_model(model: str, least: int, most: int) -> None:
    assert least <= serving.startup_seconds(serving.model_gib(model)) <= most
