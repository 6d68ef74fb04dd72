"""A stand-in for ``hyperpodrun`` (and for torchrun where torch is not installed): starts the ranks of one pod.

The command line is torchrun's, with the options that the elastic agent adds. Where the interpreter has torch, torchrun does the
work. Otherwise each local rank is a process with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment,
whose output is written to --log_dir and, by --tee, to the standard output with torchrun's prefix ``[default0]:``.
The first rank that fails ends the others; its exit code is the launcher's.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

#: Options of hyperpodrun alone, with the number of values each takes.
_AGENT = {
    "shutdown-signal": 1,
    "shutdown-timeout": 1,
    "inprocess-restart": 0,
    "inprocess-timeout": 1,
    "server-host": 1,
    "server-port": 1,
    "server-log-level": 1,
    "server-shutdown-timeout": 1,
}
#: Options of torchrun that change nothing for one node's processes here.
_IGNORED = (
    "rdzv-backend",
    "rdzv-endpoint",
    "rdzv-id",
    "rdzv-conf",
    "role",
    "monitor-interval",
    "start-method",
    "local-addr",
    "max-restarts",
)
_POLL_SECONDS = 0.1
#: Local ranks that are really started, so that eight cards' worth of processes do not choke the machine: 2 unless told otherwise.
MOST_RANKS = "INSTANTSTART_SANDBOX_MOST_RANKS"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _names(option: str) -> tuple[str, ...]:
    """``--a-b`` and ``--a_b``: torchrun takes both."""
    return tuple(dict.fromkeys((f"--{option}", f"--{option.replace('-', '_')}")))


def parser() -> argparse.ArgumentParser:
    """torchrun's command line as far as it matters, and the agent's own options."""
    made = argparse.ArgumentParser("hyperpodrun", allow_abbrev=False)
    for option, values in _AGENT.items():
        made.add_argument(*_names(option), action="store" if values else "store_true")
    for option in ("pre-train-script", "pre-train-args", "post-train-script", "post-train-args"):
        made.add_argument(*_names(option), default="")
    for option in _IGNORED:
        made.add_argument(*_names(option))
    made.add_argument("--standalone", action="store_true")
    made.add_argument(*_names("nnodes"), default=os.environ.get("NNODES", "1"))
    made.add_argument(*_names("nproc-per-node"), default=os.environ.get("NPROC_PER_NODE", "1"))
    made.add_argument(*_names("node-rank"), type=int, default=int(os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0"))))
    made.add_argument(*_names("master-addr"), default=os.environ.get("MASTER_ADDR", "127.0.0.1"))
    made.add_argument(*_names("master-port"), default=os.environ.get("MASTER_PORT", "29500"))
    made.add_argument("-r", "--redirects", default="0")
    made.add_argument("-t", "--tee", default="0")
    made.add_argument(*_names("log-dir"), default="")
    made.add_argument("-m", "--module", action="store_true")
    made.add_argument(*_names("no-python"), action="store_true")
    made.add_argument("script")
    made.add_argument("arguments", nargs=argparse.REMAINDER)
    return made


def ranks_here(text: str) -> int:
    """Processes of this node: a number, or ``auto``, ``gpu`` and ``cpu``, which are one on a machine without cards."""
    wanted, most = int(text) if text.isdigit() else 1, int(os.environ.get(MOST_RANKS, "2"))
    if wanted > most:
        _say(f"InstantStart sandbox: {most} of {wanted} local ranks are started")
    return min(wanted, most)


def command(asked: argparse.Namespace) -> list[str]:
    """The command of one rank."""
    if asked.no_python:
        return [asked.script, *asked.arguments]
    return [sys.executable, "-u", *(["-m"] if asked.module else []), asked.script, *asked.arguments]


class Rank:
    """One local rank: a process, and a thread that passes its lines on."""

    def __init__(self, number: int, arguments: list[str], environment: dict[str, str], asked: argparse.Namespace) -> None:
        self.number = number
        self.log = self._file(asked.log_dir)
        self.process = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._prefix = f"[default{number}]:".encode() if asked.tee != "0" else b""
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _file(self, folder: str) -> IO[bytes] | None:
        if not folder:
            return None
        place = Path(folder) / f"attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}" / str(self.number)
        place.mkdir(parents=True, exist_ok=True)
        return (place / "stdout.log").open("ab", buffering=0)

    def _pass_on(self) -> None:
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, b""):
            if self.log is not None:
                self.log.write(line)
            sys.stdout.buffer.write(self._prefix + line)
            sys.stdout.buffer.flush()

    def end(self, number: int) -> None:
        """Send a signal; a process that is gone is fine."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def drain(self) -> None:
        """Wait for the last lines."""
        self._thread.join(timeout=5)


def _environment(asked: argparse.Namespace, local: int, here: int) -> dict[str, str]:
    nodes = int(str(asked.nnodes).rpartition(":")[2])
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return {
        **os.environ,
        "LOCAL_RANK": str(local),
        "RANK": str(asked.node_rank * here + local),
        "GROUP_RANK": str(asked.node_rank),
        "LOCAL_WORLD_SIZE": str(here),
        "WORLD_SIZE": str(nodes * here),
        "MASTER_ADDR": asked.master_addr,
        "MASTER_PORT": str(asked.master_port),
        "TORCHELASTIC_RESTART_COUNT": restarts,
        "TORCHELASTIC_RUN_ID": "hyperpod",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def _script(path: str, arguments: str) -> int:
    return subprocess.call(["bash", path, *arguments.split()]) if path else 0


def supervise(ranks: list[Rank]) -> int:
    """Wait for all; the first failure ends the others."""

    def stop(number: int, _frame: object) -> None:
        for rank in ranks:
            rank.end(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    code = 0
    while any(r.process.poll() is None for r in ranks):
        failed = [r for r in ranks if r.process.poll() not in (None, 0)]
        if failed and code == 0:
            first = failed[0]
            code = first.process.returncode
            _say(f"E hyperpodrun: local rank {first.number} failed (exitcode: {code}), stopping the others")
            for rank in ranks:
                rank.end(signal.SIGTERM)
        time.sleep(_POLL_SECONDS)
    for rank in ranks:
        rank.drain()
    ended = next((r.process.returncode for r in ranks if r.process.returncode != 0), 0)
    code = code or ended
    return 128 - code if code < 0 else code


def _torchrun(asked: argparse.Namespace) -> list[str]:
    """torch's own launcher for the ranks of this node; the operator has fixed the topology, so that no rendezvous is needed."""
    made = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        f"--nnodes={asked.nnodes}",
        f"--nproc-per-node={ranks_here(asked.nproc_per_node)}",
    ]
    made += [f"--node-rank={asked.node_rank}", f"--master-addr={asked.master_addr}", f"--master-port={asked.master_port}"]
    made += [f"--tee={asked.tee}", *([f"--log-dir={asked.log_dir}"] if asked.log_dir else [])]
    return [*made, *(["-m"] if asked.module else []), *(["--no-python"] if asked.no_python else []), asked.script, *asked.arguments]


def main(arguments: list[str]) -> int:
    """Run the ranks of this pod; the exit code of the job's part."""
    asked = parser().parse_args(arguments)
    if asked.log_dir:
        Path(asked.log_dir).mkdir(parents=True, exist_ok=True)
    code = _script(asked.pre_train_script, asked.pre_train_args)
    if code:
        return code
    if importlib.util.find_spec("torch") is not None:
        child = subprocess.Popen(_torchrun(asked))
        signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
        code = child.wait()
        code = 128 - code if code < 0 else code
    else:
        here = ranks_here(asked.nproc_per_node)
        code = supervise([Rank(n, command(asked), _environment(asked, n, here), asked) for n in range(here)])
    return code or _script(asked.post_train_script, asked.post_train_args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
