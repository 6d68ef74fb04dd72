"""What a container does when it runs. Images are never run; an annotation says what happens instead.

``sandbox.instantstart.dev/run`` on the pod (``sandbox.instantstart.dev/run.<container>`` for one container):

    sleep                       runs until it is stopped (the default)
    process                     really runs the container's command on this machine
    exit <code> [after <s>]     ends with that code after so many virtual seconds (default 1)
    oom [after <s>]             is killed for its memory
    unready                     runs, but never becomes ready

Without a word, a container of a public Python image whose command begins with python really runs it: the machine has a Python, too.

``.../output`` is text for the log at the start, ``.../image: missing`` makes the pull fail, ``.../pull-seconds`` sets its length.
Init containers end with 0 after a second unless told otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..loops.objects import Object, annotations_of, spec_of

PREFIX = "sandbox.instantstart.dev/"
RUN, OUTPUT, IMAGE, PULL = PREFIX + "run", PREFIX + "output", PREFIX + "image", PREFIX + "pull-seconds"
_TIMED = re.compile(r"^(exit (?P<code>\d{1,3})|oom)( after (?P<seconds>\d+(\.\d+)?)s?)?$")
#: Virtual seconds to pull an image that the node does not have.
_PULL_SECONDS = 5.0
#: Docker's official image of Python, in whichever mirror
_PYTHON = re.compile(r"(^|/)python(:[^/]*)?(@sha256:[0-9a-f]+)?$")
_REFERENCE = re.compile(r"^[a-z0-9]+([._:/@-]+[A-Za-z0-9_]+)*$")
#: Parts of an image name that no registry can have: RFC 2606's reserved top level, and plain words for it.
_NOWHERE = re.compile(r"(^[^/]*\.invalid(:\d+)?/)|does-not-exist|no-such-image")


@dataclass(frozen=True)
class Behaviour:
    """``kind`` is sleep, process, end or unready; an end comes after ``seconds`` with ``code`` and ``reason``."""

    kind: str
    seconds: float = 0.0
    code: int = 0
    reason: str = ""


def behaviour_of(pod: Object, container: str, initial: bool) -> Behaviour:
    """What the container does. ValueError for an annotation that cannot be read."""
    notes = annotations_of(pod)
    text = notes.get(f"{RUN}.{container}")
    if text is None:
        text = notes.get(RUN) if not initial or notes.get(RUN) == "process" else None
    if text is None and _is_python(pod, container):
        return Behaviour("process")
    if text is None:
        return Behaviour("end", 1.0, 0, "Completed") if initial else Behaviour("sleep")
    text = text.strip()
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


def runs_process(pod: Object) -> bool:
    """Whether any container of the pod is to run as a process."""
    notes = annotations_of(pod).items()
    told = any(value.strip() == "process" for key, value in notes if key == RUN or key.startswith(f"{RUN}."))
    return told or any(_is_python(pod, container["name"]) for container in spec_of(pod).get("containers") or ())


def _is_python(pod: Object, name: str) -> bool:
    if any(key == RUN or key.startswith(f"{RUN}.") for key in annotations_of(pod)):
        return False  # what the pod says of itself goes before
    found: Object = next((c for c in spec_of(pod).get("containers") or () if c["name"] == name), {})
    command = found.get("command") or [""]
    return bool(_PYTHON.search(found.get("image", ""))) and command[0] in ("python", "python3")


def resumed(pod: Object, container: str, initial: bool) -> Behaviour:
    """The behaviour of a container that runs already: an annotation spoiled meanwhile makes it sleep."""
    try:
        return behaviour_of(pod, container, initial)
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
