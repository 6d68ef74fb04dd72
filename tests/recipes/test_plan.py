"""The pure part of recipes/: a configuration in, an argument list out. The quoting was held against hydra-core 1.3 and OmegaConf 2.3."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from instantstart.base import problems
from instantstart.ensure.training import recipe_scripts, recipes
from instantstart.ensure.training.recipe_specs import LlamaFactoryRecipe

HYPERPODRUN = ["--log_dir=/tmp/hyperpod", "--tee=3", "--server-host=0.0.0.0", "--server-port=8080"]
TRACKED = {"MLFLOW_TRACKING_URI": "arn:the-server"}


def argv(config: dict[str, Any], environ: dict[str, str] | None = None) -> list[str]:
    """What the product shows."""
    return recipe_scripts.argv_of(config, environ or {})


def test_a_text_is_one_argument_with_its_quotes_blanks_and_dollars() -> None:
    odd = ["--config", '{"method": "mtp"}', "a 'b' $HOME && rm -rf /", "", "-x", "smart “quotes”\n"]
    made = argv({"recipe": "pytorch", "script": "train.py", "arguments": odd, "nodes": 2, "processes_per_node": 8})
    assert made == ["hyperpodrun", "--nnodes=2", "--nproc_per_node=8", *HYPERPODRUN, "train.py", *odd]


def test_topology_that_is_not_given_is_the_operators() -> None:
    made = argv({"recipe": "pytorch", "module": "my.train"}, {"NNODES": "4", "NPROC_PER_NODE": "2"})
    assert made == ["hyperpodrun", "--nnodes=4", "--nproc_per_node=2", *HYPERPODRUN, "-m", "my.train"]
    assert "--nproc_per_node=auto" in argv({"recipe": "pytorch", "script": "a.py"})


def test_torchrun_is_told_where_the_others_are_and_never_trains_alone_in_silence() -> None:
    config: dict[str, Any] = {"recipe": "pytorch", "script": "a.py", "launcher": "torchrun", "nodes": 2, "job": "j"}
    made = argv(config, {"MASTER_ADDR": "j-pods-0", "MASTER_PORT": "23456"})
    assert made[:3] == ["python3", "-m", "torch.distributed.run"]
    assert {"--rdzv_endpoint=j-pods-0:23456", "--rdzv_id=j", "--rdzv_backend=c10d"} <= set(made)
    assert "--standalone" in argv({**config, "nodes": 1})
    with pytest.raises(problems.Invalid) as refused:
        argv(config)
    assert [f.pointer for f in refused.value.fields] == ["/nodes"]
    assert "MASTER_ADDR" in refused.value.detail


def test_llama_factory_takes_a_file_and_what_is_over_it() -> None:
    settings = {"learning_rate": 1e-5, "deepspeed": {"stage": 3}, "tags": ["a", "b"], "template": "qwen", "prompt": "a b: c"}
    made = argv({"recipe": "llama_factory", "config_file": "/s3/sft.yaml", "settings": settings, "run_name": "r1"}, TRACKED)
    at = made.index("llamafactory.launcher")
    assert made[at - 1] == "-m"
    assert made[at + 1 :] == [
        "/s3/sft.yaml", "report_to=mlflow", "run_name=r1", "learning_rate=1e-05", 'deepspeed={"stage": 3}', 'tags=["a", "b"]',
        "template=qwen",
        'prompt="a b: c"',
    ]  # fmt: skip


def test_settings_alone_become_a_file() -> None:
    config: dict[str, Any] = {"recipe": "llama_factory", "settings": {"stage": "sft", "report_to": "none"}}
    assert argv(config, TRACKED)[-1] == "/tmp/instantstart/settings.json"
    written = recipe_scripts.plan().settings_file(config, TRACKED)
    assert json.loads(written or "") == {"report_to": "none", "stage": "sft"}


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("pt", "swift.cli.pt"),
        ("sft", "swift.cli.sft"),
        ("rlhf", "swift.cli.rlhf"),
        ("megatron pt", "swift.cli._megatron.pt"),
        ("megatron sft", "swift.cli._megatron.sft"),
        ("megatron rlhf", "swift.cli._megatron.rlhf"),
    ],
)
def test_each_command_of_ms_swift_has_its_module(command: str, module: str) -> None:
    made = argv(
        {"recipe": "ms_swift", "command": command, "settings": {"model": "m", "load_args": False, "target": ["q", "v"], "x": None}}, TRACKED
    )
    at = made.index(module)
    assert made[at - 1] == "-m"
    reporting = [] if "megatron" in command else ["--report_to", "mlflow"]
    assert made[at + 1 :] == [*reporting, "--model", "m", "--load_args", "false", "--target", "q", "v"]


def test_the_options_of_a_file_stand_where_the_preview_says() -> None:
    config: dict[str, Any] = {"recipe": "ms_swift", "command": "sft", "config_file": "/s3/a.yaml", "settings": {"lr": 1}}
    shown = argv(config)
    assert shown[-3:] == ["@/s3/a.yaml", "--lr", "1"]
    told = {"lr": 2, "model": "m", "kw": {"a": True}}
    assert recipe_scripts.plan().expand(shown, config, lambda _: told)[-6:] == ["--model", "m", "--kw", '{"a": true}', "--lr", "1"]


def test_verl_gets_overrides_in_hydras_grammar() -> None:
    settings = {"data": {"train_files": ["/s3/a b.parquet", "it's"], "n": 8}, "+x.y": None, "trainer.nnodes": 7, "flag": "true", "lr": 1e-6}
    made = argv({"recipe": "verl", "settings": settings, "nodes": 2, "processes_per_node": 8, "job": "j"}, TRACKED)
    assert made == [
        "python3", "-m", "verl.trainer.main_ppo", "data.train_files=['/s3/a b.parquet','it\\'s']", "data.n=8", "+x.y=null",
        "trainer.nnodes=7", "flag='true'", "lr=1e-06", "trainer.n_gpus_per_node=8", "trainer.logger=[console,mlflow]",
        "trainer.project_name=j",
    ]  # fmt: skip
    assert argv({"recipe": "verl", "script": "my.py", "arguments": ["a b"], "nodes": 2}) == ["python3", "my.py", "a b"]


@pytest.mark.parametrize(
    ("config", "pointers"),
    [
        ({}, {"/recipe"}),
        ({"recipe": ["pytorch"]}, {"/recipe"}),
        ({"recipe": "pytorch"}, {"/script"}),
        ({"recipe": "pytorch", "script": "-c", "nodes": 0, "processes_per_node": True}, {"/script", "/nodes", "/processes_per_node"}),
        ({"recipe": "pytorch", "script": "a.py", "arguments": "--lr 1", "command": ["x"]}, {"/arguments", "/command"}),
        ({"recipe": "pytorch", "module": "os; rm", "tags": {"a": 1}}, {"/module", "/tags"}),
        (
            {"recipe": "pytorch", "script": "a.py", "launcher_options": ["--nnodes=3"], "launcher": "bash"},
            {"/launcher_options", "/launcher"},
        ),
        ({"recipe": "pytorch", "script": "a\0.py", "wheels": "/s3/w"}, {"/script", "/wheels"}),
        ({"recipe": "ms_swift", "command": "web-ui", "settings": {"--x": 1, "a b": 2}}, {"/command", "/settings"}),
        ({"recipe": "container", "command": []}, {"/command"}),
        ({"recipe": "llama_factory"}, {"/config_file"}),
        ([], {""}),
    ],
)
def test_every_fault_is_told_at_once(config: Any, pointers: set[str]) -> None:
    assert {pointer for pointer, _ in recipe_scripts.plan().faults_of(config)} == pointers


def test_what_the_launcher_gives_is_reserved() -> None:
    assert recipe_scripts.reserved(["RANK", "MASTER_ADDR", "NCCL_DEBUG", "INSTANTSTART_RECIPE"]) == [
        "INSTANTSTART_RECIPE",
        "MASTER_ADDR",
        "RANK",
    ]


@pytest.mark.parametrize("value", [float("inf"), {"a": [float("nan")]}, "\ud800", {"a": {"\udfff": 1}}])
def test_a_setting_is_what_json_can_hold(value: Any) -> None:
    with pytest.raises(ValidationError, match="finite numbers and whole characters"):
        LlamaFactoryRecipe.model_validate({"framework": "llama_factory", "settings": {"a": value}})


def test_a_plain_script_s_run_gets_its_name_from_the_context() -> None:
    made = recipe_scripts.plan().variables_of({"recipe": "container", "command": ["x"], "run_name": "r 1"}, TRACKED)
    assert json.loads(made["MLFLOW_RUN_CONTEXT"]) == {**json.loads(made["MLFLOW_TAGS"]), "mlflow.runName": "r 1"}
    assert "mlflow.runName" not in made["MLFLOW_TAGS"]


def test_runs_are_tagged_only_where_something_tracks_them() -> None:
    config = {"recipe": "container", "command": ["x"], "job": "j", "nodes": 2, "tags": {"team": "é"}}
    assert recipe_scripts.plan().variables_of(config, {}) == {}
    made = recipe_scripts.plan().variables_of(config, TRACKED)
    assert json.loads(made["MLFLOW_TAGS"]) == {
        "instantstart.recipe": "container",
        "instantstart.job": "j",
        "instantstart.nodes": "2",
        "team": "é",
    }
    assert made["MLFLOW_EXPERIMENT_NAME"] == "j"


def test_the_scripts_travel_in_one_config_map_and_know_no_shell() -> None:
    made = recipe_scripts.config_map("default", recipe_scripts.EXAMPLE)
    pinned = {"pytorch.txt", "llama_factory.txt", "ms_swift.txt", "verl.txt"}
    assert set(made["data"]) == {"plan.py", "run.py", "train.py", *pinned}
    lines = [line for name in pinned for line in made["data"][name].splitlines() if not line.startswith("#")]
    assert all("==" in line for line in lines)
    assert made["metadata"]["name"] == recipe_scripts.config_map_name()
    folder = Path(recipes.path("launch/run.py")).parent
    for script in folder.glob("*.py"):
        called = {node.id for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.Name)}
        assert not called & {"eval", "exec", "compile", "__import__"}
        assert "shell=True" not in script.read_text()
        assert "os.system" not in script.read_text()
