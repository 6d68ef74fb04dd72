"""Which containers really run: a table from (image, command) to the local process that a container becomes. Images are never run.

A row says by patterns which containers it is for, and by ``launch`` what to start: the container's own words, other words, or None where
this machine has not what it takes (a script of the image, a module) and the container is simulated. Rows are tried in order. An
annotation on the pod goes before the table (behaviour.py).

Processes find ``python``, ``hyperpodrun``, ``torchrun`` and ``ray`` in ``DATA/bin``: the pods' interpreter and the stand-ins of
instantstart_sandbox/programs. The pods' interpreter is the sandbox's own, or the one that INSTANTSTART_SANDBOX_PYTHON names.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ... import programs as stand_ins
from ...programs import hyperpodrun, ray_cli
from ..loops.objects import Object, annotations_of, spec_of
from . import served

#: Names the interpreter that pods run with, in the sandbox's own environment: one that has torch, say.
PYTHON = "INSTANTSTART_SANDBOX_PYTHON"
_HOME = Path(stand_ins.__file__).parent
#: Docker's official image of Python, in whichever mirror: all it has is Python.
_PYTHON_IMAGE = r"(^|/)python(:[^/]*)?(@sha256:[0-9a-f]+)?$"
_PYTHON_COMMAND = r"^python(3(\.\d+)?)?$"
_SHELLS = r"^(ba|da)?sh$"
#: what makes a line of shell worth running: a launcher as a word of its own; ``ray start`` is what a simulated Ray node says
_LAUNCHER = re.compile(r"(^|[\s;&|(])(hyperpodrun|torchrun|python3?|ray\s+job\s+submit)\s")
_PATH = re.compile(r"(?<![\w./=:-])(/[\w.@+-]+(?:/[\w.@+-]+)*)")
_SHELL_WORDS = re.compile(r"[;&|<>`$]|^cd\s")
_ANYWHERE = ("/tmp", "/dev", "/bin", "/usr", "/proc")  # noqa: S108 - only compared with what a command line names


@dataclass(frozen=True)
class Asked:
    """A container that is about to start. Paths in ``arguments`` are real places already; ``places`` are the folders of its mounts."""

    image: str
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    places: tuple[Path, ...] = ()
    folder: Path = Path()

    def here(self, path: str) -> bool:
        """Whether a file can be judged here: it exists, or it would lie in a mount, so that its absence is the user's own fault."""
        whole = self.folder / path
        return whole.exists() or any(whole.is_relative_to(p) for p in self.places)


Launch = Callable[[Asked], list[str] | None]


@dataclass(frozen=True)
class Row:
    """``image`` is searched in the reference; ``command`` in the first word's last part, "" where the container gives no command."""

    name: str
    image: str
    command: str
    launch: Launch

    def fits(self, image: str, command: str) -> bool:
        """Whether the row is for such a container."""
        return bool(re.search(self.image, image) and re.search(self.command, command))


def as_is(asked: Asked) -> list[str] | None:
    """The container's own words."""
    return asked.arguments


def _python(asked: Asked) -> list[str] | None:
    """A model server or router; a script, a module or a line of Python, where it is here."""
    if (server := served.of_words(asked.arguments)) is not None:
        return server
    rest = asked.arguments[1:]
    while rest and rest[0].startswith("-") and rest[0] not in ("-c", "-m", "-"):
        rest = rest[2:] if rest[0] in ("-X", "-W") else rest[1:]
    if not rest or rest[0] == "-":
        return None
    if rest[0] == "-c":
        return asked.arguments
    if rest[0] == "-m":
        return asked.arguments if len(rest) > 1 and _has_module(rest[1]) else None
    return asked.arguments if asked.here(rest[0]) else None


def _has_module(name: str) -> bool:
    """Whether the pods' interpreter has a module; another interpreter than ours is believed to."""
    return interpreter() != sys.executable or importlib.util.find_spec(name.partition(".")[0]) is not None


def _launcher(asked: Asked) -> list[str] | None:
    """hyperpodrun and torchrun: run where the script is here; a command line that cannot be read is left to the launcher to refuse."""
    try:
        given = hyperpodrun.parser().parse_known_args(asked.arguments[1:])[0]
    except SystemExit:
        return asked.arguments
    there = _has_module(given.script) if given.module else given.no_python or asked.here(given.script)
    return asked.arguments if there else None


def _shell(asked: Asked) -> list[str] | None:
    """A line of shell with a launcher in it, where every path it names is here."""
    words = asked.arguments[1:]
    while words and words[0].startswith("-"):
        words = words[1:]
    text = words[0] if words else ""
    if served.LINE.search(text):
        return asked.arguments  # whether its model is here, the server says itself
    if not _LAUNCHER.search(text):
        return None
    paths = [p for p in _PATH.findall(text) if not p.startswith(_ANYWHERE)]
    return asked.arguments if all(asked.here(p) for p in paths) else None


def _ray(asked: Asked) -> list[str] | None:
    """``ray job submit``, where its entrypoint is here."""
    if asked.arguments[1:3] != ["job", "submit"]:
        return None
    _, words = ray_cli.entrypoint(asked.arguments[3:])
    if len(words) == 1 and _SHELL_WORDS.search(words[0]):
        words = ["/bin/sh", "-c", words[0]]
    elif len(words) == 1:
        words = shlex.split(words[0])
    row = find(asked.image, words[0]) if words else None
    if row is None:
        return asked.arguments if words and shutil.which(words[0]) else None
    return asked.arguments if row.launch(replace(asked, arguments=words)) else None


def _words(asked: Asked) -> list[str] | None:
    """A command of a server or a router."""
    return served.of_words(asked.arguments)


#: A container that is told to be a model server whatever its image is: the inference operator's workers.
def _served(asked: Asked) -> list[str]:
    return _by_image(asked) or served.launch("serving", ["lmi"])


def _by_image(asked: Asked) -> list[str] | None:
    """As the image's own entrypoint takes the words, whether they are a command or arguments."""
    for row in TABLE[:_IMAGES]:
        if re.search(row.image, asked.image) and (words := row.launch(asked)) is not None:
            return words
    return None


SERVED = Row("served model", "", "", _served)
PROGRAM = "sandbox.instantstart.dev/program"
#: pods of it answer queries (autoscaling/prometheus.py); nothing is started for them
PROMETHEUS_IMAGE = r"(^|/)prometheus(:|@|$)"
#: how many rows at the table's head are about serving
_IMAGES = 5
#: Tried in order.
TABLE: list[Row] = [
    Row("server or router", "", r"^(vllm|sglang|sglang-router|smg)$", _words),
    Row("vLLM's image", served.VLLM_IMAGE, r"^$", lambda asked: served.of_vllm_image(asked.arguments)),
    Row("SGLang's image", served.SGLANG_IMAGE, r"^$", lambda asked: served.of_sglang_image(asked.arguments)),
    Row("router's image", served.ROUTER_IMAGE, r"^$", lambda asked: served.of_router_image(asked.arguments)),
    Row("inference container", served.INFERENCE_IMAGE, r"^$", lambda asked: served.of_inference_image(asked.arguments)),
    Row("Python's own image", _PYTHON_IMAGE, r"^python3?$", as_is),
    Row("launcher", "", r"^(hyperpodrun|torchrun)$", _launcher),
    Row("ray", "", r"^ray$", _ray),
    Row("python", "", _PYTHON_COMMAND, _python),
    Row("shell", "", _SHELLS, _shell),
]


def find(image: str, command: str) -> Row | None:
    """The first row for a container of an image with a command ("" for the image's own)."""
    last = command.rpartition("/")[2]
    return next((row for row in TABLE if row.fits(image, last)), None)


def row_of(pod: Object, container: Object) -> Row | None:
    """The row of a pod's container."""
    if annotations_of(pod).get(f"{PROGRAM}.{container.get('name')}") == "serving":
        return SERVED
    words = container.get("command") or [""]
    return find(str(container.get("image", "")), str(words[0]))


def interpreter() -> str:
    """The pods' Python."""
    return os.environ.get(PYTHON) or sys.executable


def bin_folder(data: Path) -> Path:
    """The folder that goes first in a process's PATH, made when it is not there or names another interpreter."""
    folder, python = data / "bin", interpreter()
    scripts: dict[str, list[str]] = served.scripts()
    scripts["hyperpodrun"] = [python, "-P", str(_HOME / "hyperpodrun.py")]
    near = Path(python).parent
    if not (near / "torchrun").exists():
        scripts["torchrun"] = scripts["hyperpodrun"]
    if not (near / "ray").exists():
        scripts["ray"] = [python, "-P", str(_HOME / "ray_cli.py")]
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n' for name, words in scripts.items()}
    texts |= dict.fromkeys(("python", "python3"), served.python_script(python))
    for name, text in texts.items():
        place = folder / name
        if not place.exists() or place.read_text() != text:
            place.write_text(text)
            place.chmod(place.stat().st_mode | stat.S_IXUSR)
    return folder


def search_path(data: Path, rest: str) -> str:
    """PATH of a process: the stand-ins, the interpreter's own folder, then the machine's."""
    return os.pathsep.join([str(bin_folder(data)), str(Path(interpreter()).parent), rest])


def serves(pod: Object, container: Object) -> bool:
    """Whether a container is a model server or a router, by its image, its command or its line of shell."""
    row = row_of(pod, container)
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    if row is None:
        return False
    return row is SERVED or row in TABLE[:_IMAGES] or served.of_words(words) is not None or bool(served.LINE.search(" ".join(words)))


def queries(pod: Object) -> bool:
    """Whether a container of the pod is Prometheus."""
    return any(re.search(PROMETHEUS_IMAGE, c.get("image", "")) for c in spec_of(pod).get("containers") or [])


def routes(pod: Object) -> bool:
    """Whether a container of the pod is a router."""
    found = [
        " ".join([c.get("image", ""), *(c.get("command") or []), *(c.get("args") or [])]) for c in spec_of(pod).get("containers") or []
    ]
    return any(re.search(r"sglang[-_]router|(^|[\s/])smg([\s:@]|$)", text) for text in found)
