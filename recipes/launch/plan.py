"""What a training container does, as data: a typed configuration in, an argument list out. Pure, standard library only.

The same file is read by two: ``run.py`` in the container, which does what it says, and InstantStart, which shows the very same list before
anything is submitted. No shell is anywhere: a text of the configuration becomes one element of the list, with its quotes and blanks.

A configuration is a JSON object. ``recipe`` says which framework; the fields of each recipe are in ``FIELDS``. Topology that is not given
comes from the environment: NNODES and NPROC_PER_NODE (the training operator gives them), MASTER_ADDR, MASTER_PORT and NODE_RANK.
Written for Python 3.9 and newer: training images are older than this project.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Mapping, Sequence  # noqa: UP035 - Python 3.9

Config = Mapping[str, Any]
Environment = Mapping[str, str]

#: where the configuration is: the JSON itself, or the path of a file
CONFIG_VARIABLE, CONFIG_FILE_VARIABLE = "INSTANTSTART_RECIPE", "INSTANTSTART_RECIPE_FILE"
#: variable -> folder when it is not set: where logs go (the training operator looks there), and where the project is copied to
LOGS_VARIABLE, SCRATCH_VARIABLE = "INSTANTSTART_LOGS", "INSTANTSTART_SCRATCH"
FOLDERS: Mapping[str, str] = {LOGS_VARIABLE: "/tmp/hyperpod", SCRATCH_VARIABLE: "/tmp/instantstart"}  # noqa: S108 - the container's own
#: given by the launcher or the operator: an own value makes every node wait as rank 0, or train alone
RESERVED = frozenset(
    {
        "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "NNODES",
        "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK",
        "PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", "PET_MASTER_ADDR", "PET_MASTER_PORT", CONFIG_VARIABLE, CONFIG_FILE_VARIABLE, *FOLDERS,
    }
)  # fmt: skip
#: MS-Swift's commands -> the module that does the work (swift 3 and 4: swift/cli/main.py, swift/cli/_megatron/main.py)
SWIFT_COMMANDS: Mapping[str, str] = {
    "pt": "swift.cli.pt",
    "sft": "swift.cli.sft",
    "rlhf": "swift.cli.rlhf",
    "megatron pt": "swift.cli._megatron.pt",
    "megatron sft": "swift.cli._megatron.sft",
    "megatron rlhf": "swift.cli._megatron.rlhf",
}
LAUNCHERS = ("hyperpodrun", "torchrun")
#: options of the launcher that are generated
_OWN_OPTIONS = re.compile(
    r"--?(nnodes|nproc[-_]per[-_]node|node[-_]rank|rdzv[-_].*|master[-_].*|log[-_]dir|tee|standalone|server[-_](host|port)|m|module)(=|$)"
)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)
_KEY = re.compile(r"\+{0,2}[A-Za-z_][\w.@/-]*\Z", re.ASCII)
#: words that YAML and Hydra take as they are
_PLAIN = re.compile(r"[A-Za-z_/][\w/.-]*\Z", re.ASCII)
#: characters that YAML takes only escaped, or as the end of a line
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_WORDS = frozenset({"true", "false", "null", "nan", "inf", "yes", "no", "on", "off"})


class Refused(Exception):  # noqa: N818 - a word people read
    """The configuration cannot be run: every fault at once, each a JSON pointer and a sentence."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__(" ".join(sentence for _, sentence in faults))
        self.faults = tuple(faults)


# --- what a configuration may say

Check = Callable[[Any], "str | None"]


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value or "\0" in value:
        return "must be a text that is not empty"
    return None


def _path(value: Any) -> str | None:
    return _text(value) or ("must not begin with a dash" if value.startswith("-") else None)


def _module(value: Any) -> str | None:
    return None if isinstance(value, str) and _MODULE.match(value) else "must be the dotted name of a Python module"


def _texts(value: Any) -> str | None:
    if not isinstance(value, list) or not all(isinstance(item, str) and "\0" not in item for item in value):
        return "must be a list of texts: one element for each argument"
    return None


def _command(value: Any) -> str | None:
    return _texts(value) or (None if value and value[0] else "must begin with the program")


def _settings(value: Any) -> str | None:
    if not isinstance(value, dict):
        return "must be an object of settings"
    odd = sorted(str(key) for key in value if not (isinstance(key, str) and _KEY.match(key)))
    return f"has names that no framework takes: {', '.join(odd)}" if odd else None


def _tags(value: Any) -> str | None:
    ok = isinstance(value, dict) and all(isinstance(k, str) and k and isinstance(v, str) for k, v in value.items())
    return None if ok else "must be an object whose values are texts"


def _number(value: Any) -> str | None:
    return None if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else "must be a whole number from 1"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _one_of(*words: str) -> Check:
    return lambda value: None if value in words else f"must be one of {', '.join(words)}"


def _options(value: Any) -> str | None:
    fault = _texts(value)
    if fault:
        return fault
    wrong = [option for option in value if not option.startswith("-") or _OWN_OPTIONS.match(option)]
    return f"must be options like --name=value, and none that is generated: {', '.join(wrong)}" if wrong else None


#: of every recipe
COMMON: Mapping[str, Check] = {
    "recipe": _text,
    "project": _path,
    "copy_project": _flag,
    "requirements": _path,
    "wheels": _path,
    "unpinned": _flag,
    "nodes": _number,
    "processes_per_node": _number,
    "job": _text,
    "run_name": _text,
    "experiment": _text,
    "tags": _tags,
}
_LAUNCHED: Mapping[str, Check] = {"launcher": _one_of(*LAUNCHERS), "launcher_options": _options}
FIELDS: Mapping[str, Mapping[str, Check]] = {
    "pytorch": {**COMMON, **_LAUNCHED, "script": _path, "module": _module, "arguments": _texts},
    "llama_factory": {**COMMON, **_LAUNCHED, "config_file": _path, "settings": _settings},
    "ms_swift": {**COMMON, **_LAUNCHED, "command": _one_of(*SWIFT_COMMANDS), "config_file": _path, "settings": _settings},
    "verl": {**COMMON, "module": _module, "script": _path, "settings": _settings, "arguments": _texts},
    "container": {**COMMON, "command": _command},
}
RECIPES = tuple(FIELDS)


def faults_of(config: Any) -> list[tuple[str, str]]:
    """Everything that is wrong with a configuration: JSON pointer and sentence of each."""
    if not isinstance(config, dict):
        return [("", "The configuration must be a JSON object.")]
    recipe = config.get("recipe")
    fields = FIELDS.get(recipe) if isinstance(recipe, str) else None
    if fields is None:
        return [("/recipe", f"recipe must be one of {', '.join(RECIPES)}.")]
    unknown = [(f"/{name}", f"The recipe {recipe} has no field {name}.") for name in config if name not in fields]
    wrong = [
        (f"/{name}", f"{name} {fault}.") for name, check in fields.items() if name in config for fault in (check(config[name]),) if fault
    ]
    return unknown + wrong + _missing(config)


def _missing(config: Config) -> list[tuple[str, str]]:
    recipe = config["recipe"]
    faults = []
    if recipe == "pytorch" and ("script" in config) == ("module" in config):
        faults.append(("/script", "Give a script or a module, and not both."))
    if recipe == "verl" and "script" in config and "module" in config:
        faults.append(("/script", "Give a script or a module, not both."))
    if recipe == "llama_factory" and not config.get("config_file") and not config.get("settings"):
        faults.append(("/config_file", "Give a configuration file, settings, or both."))
    if recipe in ("ms_swift", "container") and "command" not in config:
        faults.append(("/command", "command is needed."))
    if recipe == "ms_swift" and not config.get("config_file") and not config.get("settings"):
        faults.append(("/config_file", "Give a configuration file, settings, or both."))
    if "wheels" in config and "requirements" not in config:
        faults.append(("/wheels", "wheels is of use only with requirements."))
    return faults


# --- the argument list


def argv_of(config: Config, environ: Environment) -> list[str]:
    """The exact arguments that the container runs. An element ``@FILE`` stands for the settings of that file (see ``expand``).

    Raises Refused with every fault.
    """
    faults = faults_of(config)
    if faults:
        raise Refused(faults)
    return _BY_RECIPE[config["recipe"]](config, environ)


def folder_of(environ: Environment, variable: str) -> str:
    """The folder that a variable names, or its usual place."""
    return environ.get(variable) or FOLDERS[variable]


def settings_path(environ: Environment) -> str:
    """Written by run.py from ``settings``, for a framework that reads a file."""
    return f"{folder_of(environ, SCRATCH_VARIABLE)}/settings.json"


def is_launched(config: Config) -> bool:
    """Whether a launcher of PyTorch runs it, which keeps its own logs: then the container becomes the launcher."""
    return "launcher" in FIELDS[config["recipe"]]


def _pytorch(config: Config, environ: Environment) -> list[str]:
    target = ["-m", config["module"]] if "module" in config else [config["script"]]
    return [*_launcher(config, environ), *target, *config.get("arguments", ())]


def _llama_factory(config: Config, environ: Environment) -> list[str]:
    """One file, then ``name=value`` over it, as ``llamafactory-cli train`` takes them; the module is what that command starts."""
    settings = {**_reporting(config, environ), **config.get("settings", {})}
    argv = [*_launcher(config, environ), "-m", "llamafactory.launcher"]
    if "config_file" not in config:
        return [*argv, settings_path(environ)]
    return [*argv, config["config_file"], *(f"{name}={_flow(value)}" for name, value in settings.items())]


def _ms_swift(config: Config, environ: Environment) -> list[str]:
    """``--name value``: the file's settings first, ours over them."""
    reporting = {} if config["command"].startswith("megatron") else _reporting(config, environ)
    settings = {**reporting, **config.get("settings", {})}
    argv = [*_launcher(config, environ), "-m", SWIFT_COMMANDS[config["command"]]]
    read = [f"@{config['config_file']}"] if "config_file" in config else []
    return [*argv, *read, *options_of(settings)]


def _verl(config: Config, environ: Environment) -> list[str]:
    """Overrides of Hydra. One process on the head starts the work on Ray's nodes: no launcher."""
    target = ["python3", config["script"]] if "script" in config else ["python3", "-m", config.get("module", "verl.trainer.main_ppo")]
    settings = dict(flat(config.get("settings", {})))
    names = {name.lstrip("+") for name in settings}
    given = {"trainer.nnodes": config.get("nodes"), "trainer.n_gpus_per_node": config.get("processes_per_node")}
    given["trainer.experiment_name"] = config.get("run_name")
    if environ.get("MLFLOW_TRACKING_URI"):
        given["trainer.logger"] = ["console", "mlflow"]
        given["trainer.project_name"] = config.get("experiment") or config.get("job")
    for name, value in given.items() if "script" not in config else ():
        if value is not None and name not in names:
            settings[name] = value
    return [*target, *(f"{name}={_hydra(value)}" for name, value in settings.items()), *config.get("arguments", ())]


def _container(config: Config, environ: Environment) -> list[str]:
    del environ
    return list(config["command"])


_BY_RECIPE: Mapping[str, Callable[[Config, Environment], list[str]]] = {
    "pytorch": _pytorch,
    "llama_factory": _llama_factory,
    "ms_swift": _ms_swift,
    "verl": _verl,
    "container": _container,
}


def _launcher(config: Config, environ: Environment) -> list[str]:
    """hyperpodrun, which the operator tells who the others are; or torchrun, which must be told."""
    nodes = config.get("nodes") or _whole(environ, "NNODES", 1)
    processes = str(config.get("processes_per_node") or environ.get("NPROC_PER_NODE") or "auto")
    options = [f"--nnodes={nodes}", f"--nproc_per_node={processes}", f"--log_dir={folder_of(environ, LOGS_VARIABLE)}", "--tee=3"]
    if config.get("launcher", "hyperpodrun") == "hyperpodrun":
        server = ["--server-host=0.0.0.0", "--server-port=8080"]
        return ["hyperpodrun", *options, *server, *config.get("launcher_options", ())]
    return ["python3", "-m", "torch.distributed.run", *options, *_rendezvous(config, environ, nodes), *config.get("launcher_options", ())]


def _rendezvous(config: Config, environ: Environment, nodes: int) -> list[str]:
    if nodes == 1:
        return ["--standalone"]
    if not environ.get("MASTER_ADDR"):
        raise Refused([("/nodes", f"{nodes} nodes need MASTER_ADDR: without it each would train alone.")])
    endpoint = f"{environ['MASTER_ADDR']}:{environ.get('MASTER_PORT') or '29500'}"
    return ["--rdzv_backend=c10d", f"--rdzv_endpoint={endpoint}", f"--rdzv_id={config.get('job') or 'instantstart'}"]


def _whole(environ: Environment, name: str, default: int) -> int:
    text = environ.get(name, "")
    if text and not text.isdecimal():
        raise Refused([("/nodes", f"{name} of the environment is {text!r}, which is no number.")])
    return int(text) if text else default


def _reporting(config: Config, environ: Environment) -> dict[str, Any]:
    """What makes the trainers of Hugging Face report to MLflow, under the run's name."""
    if not environ.get("MLFLOW_TRACKING_URI"):
        return {}
    return {"report_to": "mlflow", **({"run_name": config["run_name"]} if config.get("run_name") else {})}


# --- texts that frameworks read


def options_of(settings: Mapping[str, Any]) -> list[str]:
    """``--name value ...`` of each setting; an object is one JSON text; null is left out, as a setting that was not made."""
    argv = []
    for name, value in settings.items():
        if value is None:
            continue
        values = value if isinstance(value, list) else [value]
        argv += [f"--{name}", *(_word(item) for item in values)]
    return argv


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _flow(value: Any) -> str:
    """A value as YAML in one line: JSON, and plain words as they are."""
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _hydra(value: Any) -> str:
    """A value in Hydra's grammar of overrides: quoted unless it is a plain word."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return f"[{','.join(_hydra(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_hydra(item)}" for name, item in value.items()) + "}"
    if _PLAIN.match(value) and value.lower() not in _WORDS:
        return str(value)
    body = re.sub(r"(\\*)(?='|\Z)", r"\1\1", value)  # a backslash counts only before a quote
    return "'" + body.replace("'", "\\'") + "'"


def flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested settings by dotted names."""
    found: list[tuple[str, Any]] = []
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            found += flat(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", value))
    return found


def expand(argv: Sequence[str], config: Config, read: Callable[[str], Mapping[str, Any]]) -> list[str]:
    """Put the options of the configuration file where ``@FILE`` stands; what ``settings`` says is not said twice."""
    if config["recipe"] != "ms_swift" or "config_file" not in config:
        return list(argv)
    mark = f"@{config['config_file']}"
    at = argv.index(mark)
    later = {word for word in argv[at + 1 :] if word.startswith("--")}
    told = {name: value for name, value in read(config["config_file"]).items() if f"--{name}" not in later}
    return [*argv[:at], *options_of(told), *argv[at + 1 :]]


def settings_file(config: Config, environ: Environment) -> str | None:
    """The text of the file at ``settings_path``, when the recipe needs it."""
    if config["recipe"] != "llama_factory" or "config_file" in config:
        return None
    return json.dumps({**_reporting(config, environ), **config["settings"]}, ensure_ascii=False, indent=1)


def variables_of(config: Config, environ: Environment) -> dict[str, str]:
    """What the environment gets besides: names and tags of the MLflow run, when there is a tracking server."""
    if not environ.get("MLFLOW_TRACKING_URI"):
        return {}
    tags = {"instantstart.recipe": config["recipe"], **({"instantstart.job": config["job"]} if "job" in config else {})}
    for tag, value in (("instantstart.nodes", config.get("nodes")), ("instantstart.processes_per_node", config.get("processes_per_node"))):
        tags.update({tag: str(value)} if value else {})
    tags.update(config.get("tags", {}))
    told = json.dumps(tags, ensure_ascii=False)
    # MLFLOW_TAGS: the trainers of Hugging Face; MLFLOW_RUN_CONTEXT: every mlflow.start_run
    found = {"MLFLOW_TAGS": told, "MLFLOW_RUN_CONTEXT": told}
    if config.get("run_name"):  # MLflow itself does not look at MLFLOW_RUN_NAME; a name that the script gives wins over this one
        found["MLFLOW_RUN_CONTEXT"] = json.dumps({**tags, "mlflow.runName": config["run_name"]}, ensure_ascii=False)
    experiment = config.get("experiment") or config.get("job")
    found.update({"MLFLOW_EXPERIMENT_NAME": experiment} if experiment and not environ.get("MLFLOW_EXPERIMENT_NAME") else {})
    found.update({"MLFLOW_RUN_NAME": config["run_name"]} if config.get("run_name") else {})
    return found
