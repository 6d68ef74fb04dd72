"""A small GPT on bytes, trained with DistributedDataParallel: a first run for a new cluster, and an example of what a good job does.

    python3 -m torch.distributed.run --standalone --nproc_per_node=2 train.py --steps 50 --checkpoints /tmp/ckpt

It goes on from its newest checkpoint, so a restart costs at most ``--save-every`` steps; SIGTERM saves first. NCCL with cards, else gloo.
With MLFLOW_TRACKING_URI it logs parameters, loss and tokens_per_second: by the ``mlflow`` package, or, where the image has none and the
URI is http(s), by MLflow's REST API. ``--fail-at`` and ``--fail-times`` let a worker die on purpose, to see how recovery looks.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 256
TERMINATED = 143


class Block(nn.Module):
    """Attention that looks back only, then a feed-forward layer; both on a residual path."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layer = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layer = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        """``x``: batch, length, width; the same shape out."""
        batch, length, width = x.shape
        parts = self.query_key_value(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        future = torch.ones(length, length, device=x.device).triu(1).bool()  # no buffer: gloo cannot broadcast truth
        scores = scores.masked_fill(future, float("-inf"))
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.layer(self.before_layer(x))


class Gpt(nn.Module):
    """The whole model: bytes in, the scores of the next byte out."""

    def __init__(self, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last, self.scores = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: Any) -> Any:
        """``tokens``: batch, length; scores: batch, length, 256."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.scores(self.last(self.blocks(self.bytes(tokens) + self.places(places))))


class Tracker:
    """MLflow, from one worker only. Trouble with the server is told and never ends the training."""

    def __init__(self, uri: str, kept: Path, parameters: dict[str, Any]) -> None:
        self.uri = uri.rstrip("/")
        self.kept = kept / "mlflow_run_id"
        try:
            import mlflow

            self.mlflow: Any = mlflow
        except ImportError:
            self.mlflow = None
        known = self.kept.read_text().strip() if self.kept.exists() else None
        self.run_id = self._guard(self._begin, known) or known
        if self.run_id and not known:
            self.kept.write_text(self.run_id)
            self._guard(self._parameters, parameters)

    def _guard(self, act: Any, *given: Any) -> Any:
        try:
            return act(*given)
        except Exception as error:  # noqa: BLE001 - whatever the server or its client says, training goes on
            sys.stderr.write(f"mlflow: {error}\n")
            return None

    def _call(self, path: str, body: dict[str, Any], method: str = "POST") -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.uri}/api/2.0/mlflow/{path}", json.dumps(body).encode(), headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - the URI is the operator's
            told: dict[str, Any] = json.loads(answer.read() or b"{}")
        return told

    def _begin(self, known: str | None) -> str:
        if self.mlflow is not None:
            return str(self.mlflow.start_run(run_id=known).info.run_id)
        if not self.uri.startswith(("http://", "https://")):
            raise ValueError(f"the image has no mlflow package, which {self.uri} needs")
        if known:
            self._call("runs/update", {"run_id": known, "status": "RUNNING"})
            return known
        tags = [{"key": key, "value": value} for key, value in json.loads(os.environ.get("MLFLOW_TAGS", "{}")).items()]
        body = {"experiment_id": self._experiment(), "start_time": int(time.time() * 1000), "tags": tags}
        name = os.environ.get("MLFLOW_RUN_NAME")
        return str(self._call("runs/create", {**body, **({"run_name": name} if name else {})})["run"]["info"]["run_id"])

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "gpt")
        for _ in range(2):
            found = self._call("experiments/search", {"filter": f"name = '{name}'", "max_results": 1}).get("experiments")
            if found:
                return str(found[0]["experiment_id"])
            self._guard(self._call, "experiments/create", {"name": name})
        return "0"

    def _parameters(self, parameters: dict[str, Any]) -> None:
        if self.mlflow is not None:
            self.mlflow.log_params(parameters)
        else:
            listed = [{"key": key, "value": str(value)} for key, value in parameters.items()]
            self._call("runs/log-batch", {"run_id": self.run_id, "params": listed})

    def log(self, step: int, values: dict[str, float]) -> None:
        """The values of one step."""
        if not self.run_id:
            return
        if self.mlflow is not None:
            self._guard(self.mlflow.log_metrics, values, step)
            return
        now = int(time.time() * 1000)
        metrics = [{"key": key, "value": value, "timestamp": now, "step": step} for key, value in values.items()]
        self._guard(self._call, "runs/log-batch", {"run_id": self.run_id, "metrics": metrics})

    def end(self, status: str) -> None:
        """FINISHED, KILLED or FAILED."""
        if self.run_id and self.mlflow is not None:
            self._guard(self.mlflow.end_run, status)
        elif self.run_id:
            self._guard(self._call, "runs/update", {"run_id": self.run_id, "status": status, "end_time": int(time.time() * 1000)})


def read_text(path: str | None) -> Any:
    """The bytes to learn; without a file, sums that are worth learning."""
    if path:
        return torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=torch.uint8)
    drawn = random.Random(0)
    lines = [f"{a} + {b} = {a + b}.\n" for a, b in ((drawn.randrange(100), drawn.randrange(100)) for _ in range(4000))]
    return torch.frombuffer(bytearray("".join(lines).encode()), dtype=torch.uint8)


def save(folder: Path, step: int, model: Any, optimizer: Any) -> None:
    """Whole or not at all: a file beside it, then its name; where a mounted bucket cannot rename, written once from start to end."""
    state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
    beside, name = folder / "newest.part", folder / "newest.pt"
    torch.save(state, beside)
    try:
        beside.replace(name)
    except OSError:
        name.write_bytes(beside.read_bytes())
        beside.unlink()


def fail_on_purpose(asked: argparse.Namespace, step: int) -> None:
    """Die as a bug would, at most ``--fail-times`` times; the checkpoints' folder remembers how often."""
    if step != asked.fail_at:
        return
    for number in range(asked.fail_times):
        mark = Path(asked.checkpoints) / f"failed-{number + 1}"
        if not mark.exists():
            mark.write_text(str(step))
            raise RuntimeError(f"failing on purpose at step {step}, time {number + 1} of {asked.fail_times}")


def arguments() -> argparse.Namespace:
    """What may be asked."""
    parser = argparse.ArgumentParser(description="Train a small GPT on bytes.")
    for name, default in (("steps", 100), ("width", 64), ("layers", 2), ("heads", 4), ("context", 64), ("batch", 8), ("save-every", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--log-every", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--data", help="a file of text; left out: sums")
    parser.add_argument("--checkpoints", default="/tmp/checkpoints", help="folder, best of a shared volume")  # noqa: S108
    parser.add_argument("--fail-at", type=int, default=-1, help="step at which worker 0 dies")
    parser.add_argument("--fail-times", type=int, default=1, help="how often it does")
    return parser.parse_args()


class Training:
    """One worker's share of the run."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.folder = asked, Path(asked.checkpoints)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.rank, self.world, self.cuda = dist.get_rank(), dist.get_world_size(), torch.cuda.is_available()
        local = int(os.environ.get("LOCAL_RANK", "0"))
        self.device = torch.device("cuda", local) if self.cuda else torch.device("cpu")
        torch.manual_seed(1)
        model = Gpt(asked.width, asked.layers, asked.heads, asked.context).to(self.device)
        self.model = DistributedDataParallel(model, device_ids=[local] if self.cuda else None)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=asked.learning_rate)
        self.text = read_text(asked.data)
        self.stopping = False
        self.step = self._resume()
        self.drawn = torch.Generator().manual_seed(1000 * self.step + self.rank)

    def _resume(self) -> int:
        newest = self.folder / "newest.pt"
        if not newest.exists():
            return 0
        state = torch.load(newest, map_location=self.device)
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.rank == 0:
            say(event="resumed", step=state["step"])
        return int(state["step"])

    def _batch(self) -> Any:
        length = self.asked.context
        starts = torch.randint(len(self.text) - length - 1, (self.asked.batch,), generator=self.drawn)
        return torch.stack([self.text[at : at + length + 1] for at in starts.tolist()]).long().to(self.device)

    def learn(self) -> float:
        """One step; the loss of this worker."""
        batch = self._batch()
        scores = self.model(batch[:, :-1])
        loss = functional.cross_entropy(scores.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())

    def together(self, loss: float) -> tuple[float, bool]:
        """The mean loss, and whether any worker was told to stop: all must leave at the same step."""
        told = torch.tensor([loss / self.world, float(self.stopping)], device=self.device)
        dist.all_reduce(told)
        return float(told[0]), bool(told[1] > 0)

    def run(self, tracker: Tracker | None) -> int:
        """To the last step, or to a SIGTERM. The exit status."""
        since, tokens = time.monotonic(), 0
        while self.step < self.asked.steps:
            if self.rank == 0:
                fail_on_purpose(self.asked, self.step)
            loss, stop = self.together(self.learn())
            tokens += self.asked.batch * self.asked.context * self.world
            last = stop or self.step == self.asked.steps
            if self.rank == 0 and (last or self.step % self.asked.save_every == 0):
                save(self.folder, self.step, self.model, self.optimizer)
            if self.rank == 0 and (last or self.step % self.asked.log_every == 0):
                rate, since, tokens = tokens / (time.monotonic() - since), time.monotonic(), 0
                say(step=self.step, loss=round(loss, 4), tokens_per_second=round(rate, 1))
                if tracker:
                    tracker.log(self.step, {"loss": loss, "tokens_per_second": rate, "learning_rate": self.asked.learning_rate})
            if stop:
                return TERMINATED
        return 0


def say(**facts: Any) -> None:
    """One line of the log."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Train; the exit status."""
    asked = arguments()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    training = Training(asked)
    signal.signal(signal.SIGTERM, lambda *_: setattr(training, "stopping", True))
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    parameters = {**vars(asked), "world_size": training.world}
    tracker = Tracker(uri, training.folder, parameters) if uri and training.rank == 0 else None
    status = 1
    try:
        status = training.run(tracker)
    finally:
        if tracker:
            tracker.end({0: "FINISHED", TERMINATED: "KILLED"}.get(status, "FAILED"))
    if training.rank == 0:
        say(event="done" if status == 0 else "stopped", step=training.step)
    dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main())
