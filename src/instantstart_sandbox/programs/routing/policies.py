"""Who gets a request."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .pool import Worker, now

_STEP = 32
_LONGEST = 4096


@dataclass
class Rules:
    """The numbers of the cache-aware policy."""

    threshold: float = 0.3
    absolute: int = 64
    relative: float = 1.5
    most: int = 2**26
    keep_seconds: float = 120.0


class Chooser:
    """Picks by policy; counts what the cache-aware one found."""

    def __init__(self, policy: str, rules: Rules) -> None:
        self.policy, self._rules = policy, rules
        self._turn = 0
        self.hits = self.misses = 0
        self.decisions: dict[tuple[str, str], int] = {}

    def pick(self, workers: list[Worker], text: str, key: str) -> Worker:
        """One of the workers for a request with that text; ``key`` is the session's, when it has one."""
        table: dict[str, Callable[[], Worker]] = {
            "random": lambda: random.choice(workers),
            "round_robin": lambda: self._in_turn(workers),
            "power_of_two": lambda: min(random.sample(workers, min(2, len(workers))), key=lambda w: w.load),
            "cache_aware": lambda: self._by_cache(workers, text),
            "prefix_hash": lambda: _by_hash(workers, text[:256]),
            "consistent_hashing": lambda: _by_hash(workers, key) if key else self._in_turn(workers),
            "manual": lambda: _by_hash(workers, key) if key else self._in_turn(workers),
            "bucket": lambda: min(workers, key=lambda w: w.load),
        }
        chosen = table[self.policy]()
        name = (self.policy, chosen.url)
        self.decisions[name] = self.decisions.get(name, 0) + 1
        return chosen

    def _in_turn(self, workers: list[Worker]) -> Worker:
        self._turn += 1
        return workers[self._turn % len(workers)]

    def _by_cache(self, workers: list[Worker], text: str) -> Worker:
        """The worker that knows most of the text, unless the load is uneven; else the one that knows least of anything."""
        loads = [w.load for w in workers]
        if max(loads) - min(loads) > self._rules.absolute and max(loads) > min(loads) * self._rules.relative:
            chosen = min(workers, key=lambda w: w.load)
        else:
            names = _prefixes(text)
            share, best = max(((_known(w, names), w) for w in workers), key=lambda found: (found[0], -found[1].load))
            if names and share > self._rules.threshold:
                self.hits += 1
                chosen = best
            else:
                self.misses += 1
                chosen = min(workers, key=lambda w: (len(w.prefixes), w.load))
        self._remember(chosen, _prefixes(text))
        return chosen

    def _remember(self, worker: Worker, names: list[str]) -> None:
        moment = now()
        for name in names:
            worker.prefixes.pop(name, None)
            worker.prefixes[name] = moment
        while worker.prefixes and len(worker.prefixes) * _STEP > self._rules.most:
            del worker.prefixes[next(iter(worker.prefixes))]


def _prefixes(text: str) -> list[str]:
    found, digest = [], hashlib.sha256()
    for start in range(0, min(len(text), _LONGEST), _STEP):
        digest.update(text[start : start + _STEP].encode())
        found.append(digest.hexdigest())
    return found


def _known(worker: Worker, names: list[str]) -> float:
    count = 0
    for name in names:
        if name not in worker.prefixes:
            break
        count += 1
    return count / len(names) if names else 0.0


def _by_hash(workers: list[Worker], key: str) -> Worker:
    """Rendezvous hashing: a worker that goes takes only its own keys with it."""
    return max(workers, key=lambda w: hashlib.sha256(f"{key}|{w.url}".encode()).digest())


def text_of(body: Any) -> str:
    """What a request says, for the cache: the prompt, or the messages one after the other."""
    if not isinstance(body, dict):
        return ""
    for name in ("text", "prompt", "input", "inputs"):
        if isinstance(body.get(name), str):
            return str(body[name])
    return "\n".join(str(m.get("content", "")) for m in body.get("messages") or [] if isinstance(m, dict))
