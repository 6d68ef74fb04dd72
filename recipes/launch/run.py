"""The entry point of InstantStart's training containers: prepare the project, then run exactly what ``plan.argv_of`` says.

    python3 run.py            run what INSTANTSTART_RECIPE (JSON) or INSTANTSTART_RECIPE_FILE (a path) says
    python3 run.py --show     print the argument list as JSON, and do nothing

Standard library only, Python 3.9 and newer. No shell, no eval. What is run by a launcher of PyTorch replaces this process, so that its
exit status and the signals are its own. Everything else is a child: its output is passed on and kept below ``/tmp/hyperpod``, where the
training operator reads (or INSTANTSTART_LOGS); signals reach it; its exit status is ours (128 and the number, when a signal ended it).

Exit status of its own: 64 the configuration is wrong; 66 something it names is not there; 69 a package is missing and could not be
installed; 127 the program is not in the image.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO, Mapping, MutableMapping, NoReturn, Sequence  # noqa: UP035 - Python 3.9

sys.path.insert(0, str(Path(__file__).resolve().parent))

import plan  # type: ignore[import-not-found]

USAGE, NO_INPUT, UNAVAILABLE, NOT_FOUND = 64, 66, 69, 127
_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[\w,. -]*\])?==([\w.!+-]+)\s*(?:;.*)?\Z")
_SKIPPED = (".git", "__pycache__", ".venv", "node_modules", ".ipynb_checkpoints")
_PASSED_ON = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"))


class Stopped(Exception):  # noqa: N818 - the end, with its status
    """Nothing can be run: the exit status, and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def say(sentence: str) -> None:
    """One line for whoever reads the log."""
    sys.stderr.write(f"instantstart: {sentence}\n")
    sys.stderr.flush()


def read_config(environ: Mapping[str, str]) -> dict[str, Any]:
    """The configuration, checked. Raises Stopped with every fault."""
    text, path = environ.get(plan.CONFIG_VARIABLE), environ.get(plan.CONFIG_FILE_VARIABLE)
    if not text and not path:
        raise Stopped(USAGE, f"neither {plan.CONFIG_VARIABLE} nor {plan.CONFIG_FILE_VARIABLE} is set")
    try:
        config = json.loads(text or Path(str(path)).read_text(encoding="utf-8"))
    except OSError as error:
        raise Stopped(NO_INPUT, f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Stopped(USAGE, f"the configuration is no JSON: {error}") from error
    faults = plan.faults_of(config)
    if faults:
        raise Stopped(USAGE, str(plan.Refused(faults)))
    return dict(config)


def read_settings(path: str) -> Mapping[str, Any]:
    """The settings of a YAML or JSON file. YAML is read with the image's own PyYAML, which every framework here needs itself."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Stopped(NO_INPUT, f"{path} cannot be read: {error.strerror}") from error
    try:
        settings = json.loads(text) if path.endswith(".json") else _yaml(text)
    except ValueError as error:
        raise Stopped(USAGE, f"{path} cannot be understood: {error}") from error
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise Stopped(USAGE, f"{path} holds no settings: names with values are needed")
    return settings


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise Stopped(UNAVAILABLE, "the image has no PyYAML to read the file with; give settings, or a .json file") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


# --- the project


def prepare_project(config: Mapping[str, Any], environ: Mapping[str, str]) -> Path | None:
    """Where the work is done: a copy of the project, since mounted buckets know no renaming and no locks; or the project itself."""
    if "project" not in config:
        return None
    source = Path(config["project"])
    if not source.is_dir():
        raise Stopped(NO_INPUT, f"there is no folder {source}: is the volume mounted, and the project in it?")
    if not config.get("copy_project", True):
        return source
    target = Path(plan.folder_of(environ, plan.SCRATCH_VARIABLE)) / "project"
    shutil.rmtree(target, ignore_errors=True)
    try:
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(*_SKIPPED))
    except (OSError, shutil.Error) as error:
        raise Stopped(NO_INPUT, f"{source} could not be copied to {target}: {error}") from error
    say(f"copied {source} to {target}")
    return target


def install(config: Mapping[str, Any]) -> None:
    """Install what the requirements name and the image lacks. Nothing is asked of any index when everything is there already."""
    if "requirements" not in config:
        return
    path = Path(config["requirements"])
    try:
        lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise Stopped(NO_INPUT, f"{path.absolute()} cannot be read: {error.strerror}") from error
    wanted = [line for line in lines if line]
    loose = [line for line in wanted if not _PINNED.match(line)]
    if loose and not config.get("unpinned", False):
        raise Stopped(USAGE, f"{path} must pin every package as name==version: {', '.join(loose)}")
    if not loose and all(_is_there(line) for line in wanted):
        say(f"the image has everything that {path} names")
        return
    offline = ["--no-index", "--find-links", config["wheels"]] if "wheels" in config else []
    argv = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *offline, "-r", str(path)]
    say(f"installing: {json.dumps(argv)}")
    if subprocess.run(argv, check=False, stdout=sys.stderr).returncode:
        raise Stopped(UNAVAILABLE, f"what {path} names could not be installed; build it into the image, or give a folder of wheels")


def _is_there(line: str) -> bool:
    name, version = _PINNED.match(line).groups()  # type: ignore[union-attr]
    try:
        return metadata.version(name).split("+")[0] == version.split("+")[0]
    except metadata.PackageNotFoundError:
        return False


# --- the run


def prepare(environ: MutableMapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Read, check, copy, install; the configuration and the final argument list. Raises Stopped or plan.Refused."""
    config = read_config(environ)
    plan.argv_of(config, environ)  # what cannot be run is told before anything is copied
    folder = prepare_project(config, environ)
    if folder is not None:
        os.chdir(folder)
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), environ.get("PYTHONPATH"))))
    install(config)
    environ.update(plan.variables_of(config, environ))
    settings = plan.settings_file(config, environ)
    if settings is not None:
        written = Path(plan.settings_path(environ))
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(settings, encoding="utf-8")
    Path(plan.folder_of(environ, plan.LOGS_VARIABLE)).mkdir(parents=True, exist_ok=True)
    return config, plan.expand(plan.argv_of(config, environ), config, lambda path: _without_variables(read_settings(path), environ))


def _without_variables(settings: Mapping[str, Any], environ: MutableMapping[str, str]) -> dict[str, Any]:
    """MS-Swift's files may hold variables below ``ENV``: what is set already wins, and what the launcher gives is nobody else's."""
    given = settings.get("ENV")
    for name, value in given.items() if isinstance(given, dict) else ():
        if name not in plan.RESERVED:
            environ.setdefault(str(name), str(value))
    return {name: value for name, value in settings.items() if name != "ENV"}


def become(argv: Sequence[str]) -> NoReturn:
    """This process becomes the launcher: signals and exit status need no passing on."""
    try:
        os.execvp(argv[0], list(argv))  # noqa: S606 - no shell, which is the point
    except FileNotFoundError as error:
        raise Stopped(NOT_FOUND, f"{argv[0]} is not in this image") from error
    except OSError as error:
        raise Stopped(NOT_FOUND - 1, f"{argv[0]} cannot be run: {error.strerror}") from error


def follow(argv: Sequence[str]) -> int:
    """Run a child, pass on what it says and keep it, hand it our signals. Its status, or 128 and the signal that ended it."""
    kept = Path(plan.folder_of(os.environ, plan.LOGS_VARIABLE)) / "instantstart" / "attempt_0" / "0"
    kept.mkdir(parents=True, exist_ok=True)
    try:
        child = subprocess.Popen(list(argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise Stopped(NOT_FOUND, f"{argv[0]} is not in this image") from error
    except OSError as error:
        raise Stopped(NOT_FOUND - 1, f"{argv[0]} cannot be run: {error.strerror}") from error
    for number in _PASSED_ON:
        signal.signal(number, lambda which, _frame: child.send_signal(which))
    pumps = [
        threading.Thread(target=_pump, args=(child.stdout, sys.stdout.buffer, kept / "stdout.log"), daemon=True),
        threading.Thread(target=_pump, args=(child.stderr, sys.stderr.buffer, kept / "stderr.log"), daemon=True),
    ]
    for pump in pumps:
        pump.start()
    status = child.wait()
    for pump in pumps:
        pump.join(timeout=5)  # a grandchild may hold the pipe open for ever
    return status if status >= 0 else 128 - status


def _pump(source: BinaryIO, shown: BinaryIO, path: Path) -> None:
    with path.open("ab", buffering=0) as kept:
        while True:
            piece = source.read1(65536)  # type: ignore[attr-defined]
            if not piece:
                return
            kept.write(piece)
            shown.write(piece)
            shown.flush()


def main(arguments: Sequence[str]) -> int:
    """The whole of it; the exit status."""
    try:
        if list(arguments) == ["--show"]:
            sys.stdout.write(json.dumps(plan.argv_of(read_config(os.environ), os.environ), ensure_ascii=False) + "\n")
            return 0
        config, argv = prepare(os.environ)
        say(f"running {json.dumps(argv, ensure_ascii=False)}")
        if plan.is_launched(config):
            become(argv)
        return follow(argv)
    except Stopped as end:
        say(str(end))
        return end.status
    except plan.Refused as refused:
        say(str(refused))
        return USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
