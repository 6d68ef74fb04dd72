"""What lines of a log mean: the words of NCCL, its OFI plugin, libfabric, CUDA and PyTorch. Pure; the lines themselves stay evidence.

Sources: NCCL user guide (environment, troubleshooting), aws-ofi-nccl#663, libfabric#11256, reports of cases 44, 49, 50; serving_trouble.py
holds those of model servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from instantstart.ensure.diagnosis.findings import Confidence, DiagnosisCause, DiagnosisStep, look, renew, restart, seen
from instantstart.ensure.running.pending_words import short

#: lines around a hit that are shown
_AROUND = 1
_SHOWN_HITS = 2


@dataclass(frozen=True)
class Words:
    """A pattern, and the cause that it tells of. ``about_network``: it concerns the communication between nodes."""

    pattern: str
    code: str
    sentence: str
    confidence: Confidence
    steps: tuple[DiagnosisStep, ...]
    about_network: bool = True


_AGAIN = restart("Submit the job again when that is mended.", "training_job_resubmit")
_SMALLER = restart("Submit with a smaller batch, sharding or checkpointing.", "training_job_submit")
_SUBMIT = restart("Submit it with the variable mended or left out.", "training_job_submit")
WORDS: tuple[Words, ...] = (
    Words(
        r"Unresponsive receiver|handshake failed|FI_EFA_ERR_UNRESP|unreachable by EFA device",
        "nccl.peer_unreachable",
        "EFA packets do not reach the other node: its security group does not let them through, or the node is gone.",
        "likely",
        (look("Check the rules of the nodes' security group: all traffic from and to itself.", "diagnosis_get"), _AGAIN),
    ),
    Words(
        r"no socket interface found|No interface found|Bootstrap ?: no socket|interface .{0,40}(?:not found|no such)|gloo.*ifname",
        "nccl.socket_interface",
        "NCCL found no network interface of the name that it was told to use (NCCL_SOCKET_IFNAME).",
        "certain",
        (look("Compare NCCL_SOCKET_IFNAME with the interfaces of a pod: eth0, unless the pod uses the host's network."), _SUBMIT),
    ),
    Words(
        r"NET/Plugin ?: ?(?:Could not find|No plugin found|dlopen .*(?:failed|error))|libnccl-net\.so.*(?:cannot open|not found)"
        r"|NET/OFI.*(?:No provider|Failed to (?:init|find)|no EFA)|fi_getinfo.*(?:failed|No data)",
        "nccl.plugin_missing",
        "The image has no working OFI plugin of NCCL (aws-ofi-nccl), so EFA is not used.",
        "likely",
        (look("See whether the image has libfabric and aws-ofi-nccl of versions that fit its NCCL."), _SUBMIT),
    ),
    Words(
        r"Using network Socket|NET/Socket ?: ?Using|Selected Provider is tcp|provider.{0,20}(?:tcp|sockets)",
        "nccl.on_tcp",
        "NCCL talks over TCP sockets, not over EFA: it works, many times slower.",
        "likely",
        (look("See the EFA cards that its pods ask for; FI_PROVIDER and NCCL_NET in their environment.", "training_job_get"), _SUBMIT),
    ),
    Words(
        r"dev/shm.*(?:No space|failed|too small)|(?:No space left on device|Bus error).*shm|shared memory.*(?:No space|fail)"
        r"|NCCL.*dev/shm",
        "nccl.shared_memory",
        "Shared memory (/dev/shm) is too small for NCCL or the data loaders.",
        "certain",
        (look("See the size of /dev/shm in the pod: it counts against its memory.", "training_job_get"),
         restart("Submit with a larger shared_memory.", "training_job_submit")),
        about_network=False,
    ),
    Words(
        r"NVRM: Xid|\bXid\b.{0,20}\d+|uncorrectable ECC|GPU has fallen off the bus|CUDA error: (?:an illegal instruction|unspecified launch"
        r" failure|uncorrectable)|NVLink.*(?:error|fail)|CUDA_ERROR_ECC",
        "node.accelerator_fault",
        "An accelerator failed under the program.",
        "likely",
        (
            look("Diagnose the node on which it ran: health label, events, other work.", "diagnosis_get"),
            restart("Let the job start again on other nodes.", "training_job_resubmit"),
            renew("Reboot the node, then replace it.", "node_replace"),
        ),
        about_network=False,
    ),
    Words(
        r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|HIP out of memory",
        "accelerator.out_of_memory",
        "The accelerators' memory is too small for the model, batch and sequence.",
        "certain",
        (look("Read the first rank that says so."), _SMALLER),
        about_network=False,
    ),
    Words(
        r"NCCL version .{0,60}(?:mismatch|differ)|Mismatched NCCL|versions? .{0,20}NCCL.{0,20}(?:mismatch|differ)|invalid usage .*NCCL",
        "nccl.versions_differ",
        "The ranks do not run the same NCCL.",
        "likely",
        (look("Compare the images of the pods: all must be one digest.", "training_job_get"), _AGAIN),
    ),
    Words(
        r"ModuleNotFoundError|ImportError: |No module named",
        "program.module_missing",
        "The program needs a Python module that the image does not have.",
        "certain",
        (look("See which module the log names."), restart("Submit with an image that has it.", "training_job_submit")),
        about_network=False,
    ),
    Words(
        r"Address already in use|EADDRINUSE",
        "program.port_taken",
        "The port of the rendezvous, or of the program, is taken on the node.",
        "likely",
        (look("See what else listens there: another job on the host's network, or a process that did not end."), _AGAIN),
    ),
    Words(
        r"Watchdog caught collective operation timeout|collective operation timeout|ran for \d+ milliseconds before timing out"
        r"|timed out waiting for .*(?:barrier|rendezvous)|RendezvousTimeoutError|DistStoreError.*(?:[Tt]imed out|TimeoutError)",
        "nccl.collective_timeout",
        "A collective did not end in time: one rank did not take part, and all others waited for it.",
        "likely",
        (look("Find the rank that wrote last, or nothing: it is the one to look at, with its node.", "logs_read"),
         look("Submit once with NCCL_DEBUG=INFO and TORCH_NCCL_TRACE_BUFFER_SIZE set, to see which collective hangs."), _AGAIN),
    ),
    Words(
        r"remote process exited|Connection (?:refused|closed by)|Connection reset by peer|socketPollConnect|socketProgress.*closed",
        "nccl.peer_gone",
        "A peer ended or could not be reached over TCP: another rank failed first, or its address is wrong.",
        "possible",
        (look("Look for the first rank that failed: this one only noticed.", "logs_read"), _AGAIN),
    ),
    Words(
        r"NCCL WARN|ncclSystemError|unhandled (?:system|cuda) error|ncclInternalError|ncclUnhandledCudaError",
        "nccl.error",
        "NCCL reported an error.",
        "possible",
        (look("Read the first NCCL WARN line, not the last error.", "logs_read"),
         look("Submit once with NCCL_DEBUG=INFO to learn more.")),
    ),
)  # fmt: skip


def causes(logs: Mapping[str, str], network_only: bool = False) -> list[DiagnosisCause]:
    """What the ends of logs (by pod) tell, each cause with the lines that say so."""
    found: list[DiagnosisCause] = []
    for words in WORDS:
        if network_only and not words.about_network and words.code.startswith(("program.", "accelerator.")):
            continue
        hits = [(pod, lines) for pod, text in logs.items() if (lines := _lines(text, words.pattern))]
        if not hits:
            continue
        noted = words.code == "nccl.error" and any(c.code.startswith("nccl.") for c in found)
        if noted:  # what is known more exactly is not told twice
            continue
        evidence = tuple(
            seen("log", f"log of {pod}", f"{len(hits)} of {len(logs)} logs that were read say so.", None, lines)
            for pod, lines in hits[:_SHOWN_HITS]
        )
        found.append(DiagnosisCause(words.code, words.sentence, words.confidence, evidence, words.steps))
    return found


def _lines(text: str, pattern: str) -> str | None:
    """The first line that fits, with its neighbours; None when none does."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if re.search(pattern, line)), None)
    if at is None:
        return None
    return "\n".join(short(line, 400) for line in lines[max(at - _AROUND, 0) : at + _AROUND + 1])


def last_lines(texts: Iterable[str], count: int = 3) -> str | None:
    """The last lines of the first text that has some."""
    for text in texts:
        lines = [short(line, 400) for line in text.splitlines() if line.strip()]
        if lines:
            return "\n".join(lines[-count:])
    return None
