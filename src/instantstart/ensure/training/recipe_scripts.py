"""How a training container is told what to run: the scripts of ``recipes/launch``, and the very function that they decide by.

The container runs ``COMMAND`` with the configuration in ``CONFIG_VARIABLE``; :func:`argv_of` is the function of the script itself, so that
what is shown before a submission is what the container runs. recipes/README.md has the fields of each recipe.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

from instantstart.base import problems
from instantstart.ensure.training import recipes

#: what the ConfigMap holds; the pod mounts it read-only at ``FOLDER``
FILES = (
    "launch/plan.py",
    "launch/run.py",
    *(f"requirements/{recipe}.txt" for recipe in ("pytorch", "llama_factory", "ms_swift", "verl")),
)
FOLDER = "/opt/instantstart"
COMMAND = ("python3", f"{FOLDER}/run.py")
#: KubeRay's ``entrypoint`` is a line for a shell: it holds no text of the person
ENTRYPOINT = " ".join(COMMAND)
EXAMPLE = "examples/gpt/train.py"


class Plan(Protocol):
    """What ``recipes/launch/plan.py`` offers."""

    CONFIG_VARIABLE: str
    CONFIG_FILE_VARIABLE: str
    FOLDERS: Mapping[str, str]
    RESERVED: frozenset[str]
    Refused: type[Exception]
    RECIPES: tuple[str, ...]
    SWIFT_COMMANDS: Mapping[str, str]
    LAUNCHERS: tuple[str, ...]

    def faults_of(self, config: Any) -> list[tuple[str, str]]: ...
    def argv_of(self, config: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]: ...
    def variables_of(self, config: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]: ...
    def settings_file(self, config: Mapping[str, Any], environ: Mapping[str, str]) -> str | None: ...
    def expand(self, argv: Sequence[str], config: Mapping[str, Any], read: Callable[[str], Mapping[str, Any]]) -> list[str]: ...


@cache
def plan() -> Plan:
    """The script's module itself, from the text that the ConfigMap gets."""
    found = recipes.path(FILES[0])
    spec = importlib.util.spec_from_file_location("instantstart_recipe_plan", found)
    if spec is None or spec.loader is None:
        raise problems.Broken("recipe.script_unreadable", f"{found} cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Plan", module)


def faults_of(config: Mapping[str, Any]) -> list[problems.Violation]:
    """Everything that is wrong with a configuration, by JSON pointer into it."""
    return [problems.Violation(*fault) for fault in plan().faults_of(dict(config))]


def argv_of(config: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """The exact arguments that the container runs; ``environ`` is what the pod gets. Raises Invalid with every violation."""
    try:
        return plan().argv_of(config, environ)
    except plan().Refused as refused:
        fields = [problems.Violation(*fault) for fault in getattr(refused, "faults", ())]
        raise problems.Invalid("recipe.refused", str(refused), fields=fields) from refused


def environment(config: Mapping[str, Any]) -> dict[str, str]:
    """What the pod's environment gets so that the script finds its configuration, and the folders that :func:`volumes` gives it."""
    return {plan().CONFIG_VARIABLE: json.dumps(config, ensure_ascii=False, separators=(",", ":"), sort_keys=True), **plan().FOLDERS}


def as_given(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as the script reads it from :func:`environment`."""
    return dict(json.loads(environment(config)[plan().CONFIG_VARIABLE]))


def config_map_name() -> str:
    """One name for each version of the scripts: a job that runs keeps the scripts it was started with."""
    return f"instantstart-recipes-{recipes.digest(*FILES)}"


def config_map(namespace: str, *more: str) -> dict[str, Any]:
    """The ConfigMap with the scripts, and more files of ``recipes/``."""
    return recipes.config_map(config_map_name(), namespace, *FILES, *more)


def volumes() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pod's volumes and its container's mounts: the scripts, and an empty folder of its own for each folder they write to."""
    pod: list[dict[str, Any]] = [{"name": "instantstart-code", "configMap": {"name": config_map_name()}}]
    mounts: list[dict[str, Any]] = [{"name": "instantstart-code", "mountPath": FOLDER, "readOnly": True}]
    for variable, folder in plan().FOLDERS.items():
        name = variable.lower().replace("_", "-")
        pod.append({"name": name, "emptyDir": {}})
        mounts.append({"name": name, "mountPath": folder})
    return pod, mounts


def reserved(names: Sequence[str]) -> list[str]:
    """Variables that a person may not set: the launcher and the operator give them (case 50)."""
    return sorted(set(names) & plan().RESERVED)
