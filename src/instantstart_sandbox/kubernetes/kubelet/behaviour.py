"""What a container does when it runs. Images are never run; an annotation says what happens instead.

``sandbox.instantstart.dev/run`` on the pod (``sandbox.instantstart.dev/run.<container>`` for one container):

    sleep                       runs until it is stopped (the default)
    process                     really runs the container's command on this machine
    exit <code> [after <s>]     ends with that code after so many virtual seconds (default 1)
    oom [after <s>]             is killed for its memory
    unready                     runs, but never becomes ready

Several, with ``;`` between them, are for the first start, the second and so on; the last one stays. Without a word, a container whose
command is in the table of programs.py really runs what the table says, if this machine has what it takes.

``.../output`` is text for the log at the start; ``.../beat`` is a line that a simulated container goes on writing,
``every <s> [until <s>]: text``, in which ``{n}`` counts. ``.../image: missing`` makes the pull fail, ``.../pull-seconds`` sets its length.
Init containers end with 0 after a second unless told otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..loops.objects import Object, annotations_of, spec_of
from . import programs

PREFIX = "sandbox.instantstart.dev/"
RUN, OUTPUT, IMAGE, PULL, BEAT = (PREFIX + word for word in ("run", "output", "image", "pull-seconds", "beat"))
#: The name of another pod: the process has that one's volumes and environment, as what Ray's head runs for a submitter has.
LIKE = PREFIX + "like"
#: How many starts went before those of this pod: a controller that makes a pod anew goes on in the sequence of ``run``.
STARTS = PREFIX + "starts"
_TIMED = re.compile(r"^(exit (?P<code>\d{1,3})|oom)( after (?P<seconds>\d+(\.\d+)?)s?)?$")
#: Virtual seconds to pull an image that the node does not have.
_PULL_SECONDS = 5.0
_BEAT = re.compile(r"^every (?P<every>\d+(\.\d+)?)s?( until (?P<until>\d+(\.\d+)?)s?)?: ?(?P<text>.*)$", re.DOTALL)
_REFERENCE = re.compile(r"^[a-z0-9]+([._:/@-]+[A-Za-z0-9_]+)*$")
#: Parts of an image name that no registry can have: RFC 2606's reserved top level, and plain words for it.
_NOWHERE = re.compile(r"(^[^/]*\.invalid(:\d+)?/)|does-not-exist|no-such-image")


@dataclass(frozen=True)
class Behaviour:
    """``kind`` is sleep, process, end or unready; an end comes after ``seconds`` with ``code`` and ``reason``.

    ``by_table`` marks a process that nobody asked for by annotation: it is simulated where this machine has not what it takes.
    """

    kind: str
    seconds: float = 0.0
    code: int = 0
    reason: str = ""
    by_table: bool = False


@dataclass(frozen=True)
class Beat:
    """A line that a simulated container writes every so many virtual seconds, until so many after its start (0: for ever)."""

    every: float
    until: float
    text: str


def behaviour_of(pod: Object, container: str, initial: bool, start: int = 0) -> Behaviour:
    """What the container does at its ``start``-th start, counted from 0. ValueError for an annotation that cannot be read."""
    notes = annotations_of(pod)
    text = notes.get(f"{RUN}.{container}")
    if text is None:
        text = notes.get(RUN) if not initial or notes.get(RUN) == "process" else None
    if text is None and _has_program(pod, container):
        return Behaviour("process", by_table=True)
    if text is None:
        return Behaviour("end", 1.0, 0, "Completed") if initial else Behaviour("sleep")
    each = [part.strip() for part in text.split(";")]
    return _read(each[min(start + starts_before(pod), len(each) - 1)])


def _read(text: str) -> Behaviour:
    if text in ("sleep", "process", "unready"):
        return Behaviour(text)
    found = _TIMED.match(text)
    if found is None:
        raise ValueError(f"annotation {RUN} cannot be read: {text!r}")
    seconds = float(found["seconds"] or 1.0)
    if text.startswith("oom"):
        return Behaviour("end", seconds, 137, "OOMKilled")
    code = int(found["code"])
    return Behaviour("end", seconds, code, "Error" if code else "Completed")


def starts_before(pod: Object) -> int:
    """How many starts went before those of this pod."""
    text = annotations_of(pod).get(STARTS, "0")
    return int(text) if text.isdigit() else 0


def beat_of(pod: Object) -> Beat | None:
    """The line that the pod's simulated containers go on writing; None without one, or when it cannot be read."""
    found = _BEAT.match(annotations_of(pod).get(BEAT, ""))
    if found is None or float(found["every"]) <= 0:
        return None
    return Beat(float(found["every"]), float(found["until"] or 0), found["text"])


def runs_process(pod: Object) -> bool:
    """Whether any container of the pod may run as a process."""
    notes = annotations_of(pod).items()
    told = any("process" in value for key, value in notes if key == RUN or key.startswith(f"{RUN}."))
    return told or any(_has_program(pod, container["name"]) for container in spec_of(pod).get("containers") or ())


def _has_program(pod: Object, name: str) -> bool:
    if any(key == RUN or key.startswith(f"{RUN}.") for key in annotations_of(pod)):
        return False  # what the pod says of itself goes before
    found: Object = next((c for c in spec_of(pod).get("containers") or () if c["name"] == name), {})
    return programs.row_of(pod, found) is not None


def resumed(pod: Object, container: str, initial: bool, start: int = 0) -> Behaviour:
    """The behaviour of a container that runs already: an annotation spoiled meanwhile makes it sleep."""
    try:
        return behaviour_of(pod, container, initial, start)
    except ValueError:
        return Behaviour("sleep")


def pull_seconds(pod: Object) -> float:
    """How long a first pull takes, virtual seconds."""
    try:
        return float(annotations_of(pod).get(PULL, _PULL_SECONDS))
    except ValueError:
        return _PULL_SECONDS


def image_problem(pod: Object, image: str) -> tuple[str, str] | None:
    """(waiting reason, message) of an image that cannot be had, or None."""
    if not _REFERENCE.match(image):
        return (
            "InvalidImageName",
            f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": invalid reference format',
        )
    if annotations_of(pod).get(IMAGE) == "missing" or _NOWHERE.search(image):
        name = image if ":" in image.rpartition("/")[2] else f"{image}:latest"
        text = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": {name}: not found'
        return "ErrImagePull", f"rpc error: code = NotFound desc = {text}"
    return None
