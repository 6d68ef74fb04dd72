"""``instantstart demo``: the sandbox and the control plane on this machine, the main job run before your eyes, the console left open.

Both are the ordinary processes; nothing here knows more of them than their command lines and their HTTP.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime as dt
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import show, watch
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.contexts import Context

READY_SECONDS = 60.0
SANDBOX_PORT = 4599
OK, FAILED = 0, 1
#: prctl(2): the signal a child gets when its parent is gone
_PR_SET_PDEATHSIG = 1
_GUARD_SECONDS = 0.5
_INSTANCE_TYPE = "ml.g5.8xlarge"


@dataclass(frozen=True)
class Process:
    """A child of the demo and where its output goes."""

    child: subprocess.Popen[str]
    log: Path


def demo(
    folder: Annotated[Path, typer.Option(help="Where the demo keeps its state; removing it starts from nothing.")] = Path(
        ".instantstart/demo"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the console; 0 takes a free one.")] = 3099,
    rate: Annotated[float, typer.Option(min=1, max=600, help="Sandbox seconds for each real second.")] = 12.0,
    tag: Annotated[str | None, typer.Option(help="Tag of the cluster; left out: hypd- and today's date.")] = None,
    sandbox_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the sandbox; 0 takes a free one.")] = SANDBOX_PORT,
) -> None:
    """Run the whole main job in the sandbox: an empty account becomes a verified cluster. With CI=true it ends after the job."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell starts background jobs with SIGINT ignored
        signal.signal(number, signal.default_int_handler)  # so that the children end with us
    with contextlib.ExitStack() as stack:
        guard = stack.enter_context(Guard())
        aws = stack.enter_context(sandbox(folder, rate, sandbox_port, guard))
        url, sign_in = stack.enter_context(control_plane(folder, port, rate, aws, guard))
        token = (folder / "control-plane" / "admin-token").read_text().strip()
        http = Client(Context(url, token, "demo"))
        stack.callback(http.close)
        operation = run_job(http, tag or f"hypd-{dt.date.today():%m%d}")
        status = OK if verified(operation) else FAILED
        if os.environ.get("CI") != "true":
            if verified(operation):
                http.call("POST", f"/clusters/{operation['cluster']}/selection")  # so that the next commands need not name it
            _explain(folder, url, sign_in, aws, operation)
            _stay(guard)
    show.note(last_line(operation))
    raise typer.Exit(status)


#: not SIGINT, which is ignored in a demo that a script has put into the background
_LOST = signal.SIGUSR2


class Guard:
    """Looks after the children: when one ends before the demo does, the demo ends and says which and why."""

    def __init__(self) -> None:
        self._watched: list[Process] = []
        self._lost: Process | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="guard", daemon=True)

    @property
    def lost(self) -> Process | None:
        """The child that has ended."""
        return self._lost

    @contextlib.contextmanager
    def watch(self, process: Process) -> Iterator[None]:
        """While this is open, its end is the demo's; the demo's own ending of it comes afterwards."""
        self._watched.append(process)
        try:
            yield
        finally:
            self._watched = [each for each in self._watched if each is not process]

    def __enter__(self) -> Guard:
        self._before = signal.signal(_LOST, signal.default_int_handler)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        """Raises Broken ``demo.process_ended`` for what the death of a child interrupted."""
        self._over.set()
        self._thread.join()
        signal.signal(_LOST, self._before)
        if isinstance(error, KeyboardInterrupt) and self._lost is not None:
            raise self._problem(self._lost) from None

    def _look(self) -> None:
        while not self._over.wait(_GUARD_SECONDS):
            self._lost = next((each for each in self._watched if each.child.poll() is not None), None)
            if self._lost is not None:
                os.kill(os.getpid(), _LOST)  # whatever the demo waits for ends now
                return

    def _problem(self, lost: Process) -> problems.Broken:
        status = lost.child.returncode
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        hint = f"Its last words are in {lost.log}. The same command goes on from what the folder holds."
        return problems.Broken("demo.process_ended", f"The {lost.log.stem} {how}; the demo ends.", hint=hint)


@contextlib.contextmanager
def sandbox(folder: Path, rate: float, port: int = SANDBOX_PORT, guard: Guard | None = None) -> Iterator[dict[str, str]]:
    """Run the sandbox; the environment that points boto3, aws and kubectl at it."""
    if importlib.util.find_spec("instantstart_sandbox") is None:
        raise problems.NotFound("demo.no_sandbox", "The sandbox is not installed.", hint="pip install 'instantstart[sandbox]'")
    data = folder / "sandbox"
    port = 0 if os.environ.get("CI") == "true" else port
    command = [sys.executable, "-m", "instantstart_sandbox", "serve", "--port", str(port), "--data", str(data), "--rate", str(rate)]
    with _child(command, os.environ, folder / "sandbox.log") as process:
        _await(process, '"ready": true')
        told = json.loads((data / "credentials.json").read_text())
        with guard.watch(process) if guard is not None else contextlib.nullcontext():
            yield {
                "AWS_ENDPOINT_URL": told["endpoint_url"],
                "INSTANTSTART_HUB_URL": f"{told['endpoint_url']}/_hub",
                "AWS_ACCESS_KEY_ID": told["access_key_id"],
                "AWS_SECRET_ACCESS_KEY": told["secret_access_key"],
                "AWS_REGION": told["region"],
                "AWS_DEFAULT_REGION": told["region"],
            }


@contextlib.contextmanager
def control_plane(folder: Path, port: int, rate: float, aws: Mapping[str, str], guard: Guard | None = None) -> Iterator[tuple[str, str]]:
    """Run the control plane against the sandbox; its address and its one-time sign-in line."""
    bundles = Path(str(importlib.util.find_spec("instantstart_sandbox").origin)).parent / "bundles"  # type: ignore[union-attr]
    mine = {
        "INSTANTSTART_DATA_DIR": str(folder / "control-plane"),
        "INSTANTSTART_PORT": str(port),
        "INSTANTSTART_CLOCK_RATE": str(rate),
        "INSTANTSTART_SIMULATED": "true",
        "INSTANTSTART_BUNDLES_DIR": str(bundles),
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "INSTANTSTART_"))}
    with _child([sys.executable, "-m", "instantstart", "serve"], {**kept, **aws, **mine}, folder / "control-plane.log") as process:
        _await(process, "Administrator's token")
        lines = process.log.read_text().splitlines()
        with guard.watch(process) if guard is not None else contextlib.nullcontext():
            yield _after(lines, "InstantStart is ready: "), _after(lines, "Sign in once, within 10 minutes: ")


def run_job(http: Client, tag: str) -> dict[str, Any]:
    """Create the cluster through the door and follow it to its end."""
    zone = next(z for z in http.get("/zones", instance_type=_INSTANCE_TYPE)["items"] if z["offers_type"])
    ask = {"tag": tag, "zone": zone["zone_id"], "instance_type": _INSTANCE_TYPE, "instance_count": 1}
    show.note(f"Creating the cluster {tag}: 1 x {_INSTANCE_TYPE} in {zone['name']} ({zone['zone_id']}), on demand.")
    operation = http.call("POST", "/clusters", body=ask)
    return dict(watch.follow(http, operation))


def verified(operation: Mapping[str, Any]) -> bool:
    """Whether the job ended with a verified cluster."""
    return operation["status"] == "succeeded" and bool((operation.get("result") or {}).get("verified"))


def last_line(operation: Mapping[str, Any]) -> str:
    """The outcome in one line: the summary, or the true failure."""
    result = operation.get("result") or {}
    if verified(operation):
        count = result["nodes"]
        bound = "Bound" if all(claim["bound"] for claim in result["storage"]) else "not bound"
        return f"cluster {result['tag']} verified: {count['ready']}/{count['wanted']} nodes Ready, storage {bound}"
    problem = operation.get("problem") or {}
    return f"cluster {operation['cluster']} {operation['status']}: {problem.get('detail') or 'not verified: ' + json.dumps(result)[:300]}"


def _explain(folder: Path, url: str, sign_in: str, aws: Mapping[str, str], operation: Mapping[str, Any]) -> None:
    """Each line can be pasted into any shell of this folder."""
    script = folder / "env.sh"
    token = (folder / "control-plane" / "admin-token").read_text().strip()
    told = {**aws, "INSTANTSTART_URL": url, "INSTANTSTART_TOKEN": token}
    script.write_text("".join(f"export {key}={shlex.quote(value)}\n" for key, value in told.items()))
    script.chmod(0o600)
    eks = ((operation.get("result") or {}).get("eks") or {}).get("name", "NAME")
    config = f"--kubeconfig {shlex.quote(str(folder / 'kubeconfig'))}"
    first = f". {shlex.quote(str(script) if script.is_absolute() else f'./{script}')} &&"
    show.note(last_line(operation))
    show.note(f"\nConsole:   {url}\nSign in:   {sign_in or 'instantstart token create (the link was used)'}")
    show.note(f"aws:       {first} aws sagemaker list-clusters")
    show.note(f"kubectl:   {first} aws eks update-kubeconfig --name {eks} {config}")
    show.note(f"           {first} kubectl {config} get nodes,pvc")
    show.note(f"CLI:       {first} {_program()} cluster list")
    show.note("Ctrl-C ends both; the state stays in the folder and goes on next time.")


def _program() -> str:
    """How a shell calls this program: by its name where it is on the path, else by where it is."""
    beside = Path(sys.executable).parent / "instantstart"
    if shutil.which("instantstart") or not beside.exists():
        return "instantstart"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


def _stay(guard: Guard) -> None:
    """Until Ctrl-C, or until a child is gone."""
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        if guard.lost is not None:
            raise


@contextlib.contextmanager
def _child(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator[Process]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        child = subprocess.Popen(  # the hook makes one system call and takes no lock
            command,
            env=dict(environment),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_the_demo,
        )
    try:
        yield Process(child, log)
    finally:
        child.terminate()
        try:
            child.wait(timeout=15)
        except subprocess.TimeoutExpired:
            child.kill()


def _end_with_the_demo() -> None:
    """In the child: the kernel ends it when the demo is gone, however it went. Elsewhere than on Linux only Ctrl-C does."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _await(process: Process, sign: str) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        if sign in process.log.read_text():
            return
        if process.child.poll() is not None:
            break
        time.sleep(0.1)
    told = "\n".join(process.log.read_text().splitlines()[-5:])
    raise problems.Broken("demo.not_started", f"The {process.log.stem} did not start: {told}", hint=f"See {process.log}.")


def _after(lines: list[str], mark: str) -> str:
    return next((line.removeprefix(mark) for line in lines if line.startswith(mark)), "")
