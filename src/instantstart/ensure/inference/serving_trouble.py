"""Why a model server does not answer, in one sentence: what ``pending`` knows of any pod, and what servers say before they die.

The last words are those of vLLM, SGLang, Transformers and the hub's client; they are untrusted text, so only what a pattern knows becomes
our sentence, and the words themselves stay evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from instantstart.ensure.running import pending_reads
from instantstart.ensure.running.pending_words import Resource, Why
from instantstart.ensure.sites import Site

#: (pattern of the last words, code, sentence, next step); the first that fits
_WORDS: tuple[tuple[str, str, str, str], ...] = (
    (
        r"GatedRepoError|gated repo|Access to model \S+ is restricted|access is restricted.*(?:log ?in|token)|awaiting a review",
        "model.gated",
        "The model is gated, and the server's token may not read it.",
        "Accept its licence on the hub with the account of the token, and name the Secret of that token.",
    ),
    (
        r"RepositoryNotFoundError|is not a valid model identifier|Repository Not Found|RevisionNotFoundError",
        "model.missing",
        "The hub shows no such model to the server: it is not there, or it is private and the token may not read it.",
        "Check the model's name, and the Secret of the token.",
    ),
    (
        r"does not appear to have a file named|No such file or directory: '[^']*(?:config\.json|safetensors)"
        r"|Can't load the configuration of|no (?:file named )?config\.json|Cannot find any model weights"
        r"|NotADirectoryError|is not a directory",
        "model.missing",
        "The model's files are not where the server looks for them.",
        "Look at the folder of the volume or bucket, and at the path in the command.",
    ),
    (
        r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|No available memory for the cache blocks|HIP out of memory"
        r"|(?:larger|less) than the (?:available )?KV cache|Not enough memory\. Please try",
        "accelerator.out_of_memory",
        "The accelerators' memory is too small for the model and its cache.",
        "Use more accelerators with a larger tensor parallelism, a shorter context, or a smaller model.",
    ),
    (
        r"tensor.parallel.*(?:exceeds|greater than|larger than|is not divisible|must be divisible)|World size .* exceeds|not enough GPUs",
        "server.parallelism",
        "The command spreads the model over more accelerators than the container has, or than its heads can be divided by.",
        "Make tensor parallelism fit the accelerators of a replica.",
    ),
    (
        r"unrecognized arguments?|error: argument |invalid choice:|No such option",
        "server.bad_flag",
        "The server does not know a flag of its command.",
        "Compare the command with the documentation of the image's version.",
    ),
    (
        r"Address already in use|address in use|EADDRINUSE",
        "server.port_taken",
        "The port that the server wants is in use in the pod.",
        "Let only one process of the pod listen on it.",
    ),
    (
        r"CUDA driver version is insufficient|no CUDA-capable device|Found no NVIDIA driver|libcuda\.so",
        "accelerator.not_seen",
        "The server sees no accelerator that it can use.",
        "Ask for accelerators, and use an image that fits the node's driver.",
    ),
)


def explain(room: Any, where: Site, owner: Resource, found: Sequence[Resource]) -> Why | None:
    """Why a workload that serves does not; None when it does. ``room`` is the Room of capabilities/room.py."""
    why = pending_reads.explain(room, where, owner, found)
    return refine(why) if why is not None else None


def refine(why: Why) -> Why:
    """The same reason, told by what the server said before it ended, where that is known. Pure."""
    words = str(why.evidence.get("untrusted_last_words") or "")
    for pattern, code, text, step in _WORDS if words else ():
        if re.search(pattern, words, re.IGNORECASE):
            shared = re.match(r"\d+ of \d+ pods: ", why.text)
            return replace(why, code=code, text=(shared[0] if shared else "") + text, next_step=step)
    return why
