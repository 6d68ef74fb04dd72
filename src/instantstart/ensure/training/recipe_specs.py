"""Recipes as typed forms: what a person may say of each framework. ``recipes/`` runs them (recipe_scripts.py).

The descriptions are the form's help, the OpenAPI's and the agent's. Which operator keeps the job alive is another decision: ``ON``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from instantstart.base import patterns

Argument = Annotated[str, Field(max_length=8192)]
FilePath = Annotated[str, Field(min_length=1, max_length=1024, pattern=patterns.PRINTABLE)]
Module = Annotated[str, Field(max_length=300, pattern=patterns.MODULE)]


def _written(value: JsonValue) -> JsonValue:
    """A value that JSON can hold and UTF-8 can write: Python takes infinities and halves of characters from a request, too."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise ValueError("must hold finite numbers and whole characters only") from error
    return value


Settings = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=200, pattern=patterns.PRINTABLE)], Annotated[JsonValue, AfterValidator(_written)]],
    Field(max_length=500, description="Settings by name; they win over those of the file."),
]
_COMMON = ("project", "copy_project", "requirements", "wheels", "unpinned")


class RecipeForm(BaseModel):
    """What every recipe can be told."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    project: Annotated[
        str | None,
        Field(max_length=1024, pattern=patterns.ABSOLUTE_PATH, description="Folder of a mounted volume in which the work is done."),
    ] = None
    copy_project: Annotated[
        bool | None,
        Field(description="Copy the project into the container first (a bucket knows no locks); left out: yes, but not on Ray."),
    ] = None
    requirements: Annotated[FilePath | None, Field(description="File of the project with pinned packages that the image lacks.")] = None
    wheels: Annotated[
        str | None,
        Field(max_length=1024, pattern=patterns.ABSOLUTE_PATH, description="Folder of wheels: no package index is asked."),
    ] = None
    unpinned: Annotated[bool, Field(description="Let the requirements name packages without their versions.")] = False


class _Launched(RecipeForm):
    launcher: Annotated[
        Literal["hyperpodrun", "torchrun"],
        Field(description="hyperpodrun keeps workers alive with the operator; torchrun is for images without it."),
    ] = "hyperpodrun"
    launcher_options: Annotated[
        tuple[Argument, ...],
        Field(max_length=50, description="More options of the launcher, such as --inprocess-restart.", strict=False),
    ] = ()


class PyTorchRecipe(_Launched):
    """A plain PyTorch script, one process for each accelerator."""

    framework: Literal["pytorch"]
    script: Annotated[FilePath | None, Field(description="The script, relative to the project or a whole path.")] = None
    module: Annotated[Module | None, Field(description="Instead of a script: a module that is run.")] = None
    arguments: Annotated[
        tuple[Argument, ...],
        Field(max_length=500, description="Arguments of the script, each exactly as it is to arrive.", strict=False),
    ] = ()


class LlamaFactoryRecipe(_Launched):
    """LLaMA-Factory: a YAML file as for `llamafactory-cli train`, settings over it, or settings alone."""

    framework: Literal["llama_factory"]
    config_file: Annotated[FilePath | None, Field(description="YAML or JSON file, relative to the project or a whole path.")] = None
    settings: Settings = Field(default_factory=dict)


class MsSwiftRecipe(_Launched):
    """MS-Swift: one of its commands, with a file of options, settings over it, or settings alone."""

    framework: Literal["ms_swift"]
    command: Annotated[
        Literal["pt", "sft", "rlhf", "megatron pt", "megatron sft", "megatron rlhf"],
        Field(description="What it does: pretraining, fine-tuning or reinforcement learning, with Megatron if said."),
    ]
    config_file: Annotated[FilePath | None, Field(description="YAML or JSON file, relative to the project or a whole path.")] = None
    settings: Settings = Field(default_factory=dict)


class VerlRecipe(RecipeForm):
    """VERL: reinforcement learning on Ray; overrides of its Hydra configuration."""

    framework: Literal["verl"]
    module: Annotated[Module | None, Field(description="Module that is run; left out: verl.trainer.main_ppo.")] = None
    script: Annotated[FilePath | None, Field(description="Instead of the module: a script of yours.")] = None
    settings: Settings = Field(default_factory=dict)
    arguments: Annotated[
        tuple[Argument, ...], Field(max_length=500, description="More arguments, each exactly as it is to arrive.", strict=False)
    ] = ()


class ContainerRecipe(RecipeForm):
    """Any command in any image."""

    framework: Literal["container"]
    command: Annotated[
        tuple[Argument, ...],
        Field(min_length=1, max_length=500, description="Program and arguments, each exactly as it is to arrive; no shell.", strict=False),
    ]
    direct: Annotated[
        bool,
        Field(description="Start the command itself, without our entry script: for images without Python."),
    ] = False


Recipe = Annotated[
    PyTorchRecipe | LlamaFactoryRecipe | MsSwiftRecipe | VerlRecipe | ContainerRecipe,
    Field(discriminator="framework"),
]
Framework = Literal["pytorch", "llama_factory", "ms_swift", "verl", "container"]
FORMS: Mapping[str, type[RecipeForm]] = {
    get_args(form.model_fields["framework"].annotation)[0]: form
    for form in (PyTorchRecipe, LlamaFactoryRecipe, MsSwiftRecipe, VerlRecipe, ContainerRecipe)
}
#: which kinds of job a framework runs on, the usual one first
ON: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("pytorch",),
    "llama_factory": ("pytorch",),
    "ms_swift": ("pytorch",),
    "verl": ("ray_job",),
    "container": ("pytorch", "ray_job"),
}


def config_of(recipe: RecipeForm, **more: Any) -> dict[str, Any]:
    """The configuration that the entry script reads: what was said, and what only the job knows. Empty values are left out."""
    told = {key: value for key, value in recipe.model_dump(mode="json").items() if value not in (None, [], {}, False)}
    told.pop("direct", None)
    framework = told.pop("framework")
    if recipe.copy_project is False:
        told["copy_project"] = False
    if framework in ("pytorch", "llama_factory", "ms_swift") and told.get("launcher") == "hyperpodrun":
        told.pop("launcher")
    return {"recipe": framework, **told, **{key: value for key, value in more.items() if value not in (None, {}, "")}}
