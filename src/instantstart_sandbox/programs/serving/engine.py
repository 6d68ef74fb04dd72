"""The engine: a queue before a number of places, a cache of prefixes, and a pace; all that the metrics tell of."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass

from . import words
from .gauges import Gauges
from .models import Model
from .moments import Moments
from .spoiling import Spoiling

_BLOCK = 16
_KEPT_BLOCKS = 50_000
#: An answer takes at most so many real seconds unless it was asked to be slow: a test of a hundred calls is no load test.
_LONGEST_REAL_SECONDS = 0.25
_SHORTEST_SLEEP = 0.004
_PREFILL_PER_SECOND = 8000.0


@dataclass
class Wish:
    """One generation: the prompt, at most how many tokens, stop words, and a text that is to be said instead of the usual."""

    prompt: str
    question: str
    limit: int | None = None
    stop: tuple[str, ...] = ()
    said: str | None = None
    ignore_end: bool = False


@dataclass
class Piece:
    """A token of an answer; the last one has a ``finish``."""

    text: str
    finish: str | None = None


@dataclass
class Usage:
    """The counts of one answer."""

    prompt: int
    cached: int
    completion: int = 0


class Engine:
    """Generates. ``places``: how many answers are made at once; ``cache_tokens``: what the KV cache holds."""

    def __init__(self, model: Model, moments: Moments, places: int, cache_tokens: int) -> None:
        self.model, self.moments, self.gauges = model, moments, Gauges(cache_tokens=cache_tokens)
        self._places = asyncio.Semaphore(places)
        self._prefixes: OrderedDict[str, None] = OrderedDict()

    def count(self, wish: Wish) -> Usage:
        """The prompt's tokens, and how many of them are in the cache; they are from now on."""
        pieces = words.tokens(wish.prompt)
        cached, digest = 0, hashlib.sha256()
        known = True
        for start in range(0, len(pieces) - _BLOCK + 1, _BLOCK):
            digest.update("".join(pieces[start : start + _BLOCK]).encode())
            name = digest.hexdigest()
            known = known and name in self._prefixes
            cached += _BLOCK if known else 0
            self._prefixes[name] = None
            self._prefixes.move_to_end(name)
        while len(self._prefixes) > _KEPT_BLOCKS:
            self._prefixes.popitem(last=False)
        return Usage(len(pieces), min(cached, max(len(pieces) - 1, 0)))

    async def generate(self, wish: Wish, usage: Usage, spoilt: Spoiling) -> AsyncIterator[Piece]:
        """The pieces of the answer, at the model's pace."""
        g, began = self.gauges, self.moments.now()
        g.requests += 1
        async with self._place():
            started = self.moments.now()
            g.queued.observe(started - began)
            held = usage.prompt
            g.used_tokens += held
            reason = "abort"
            try:
                await self._pass(usage.prompt / _PREFILL_PER_SECOND + spoilt.delay, spoilt)
                g.prompt_tokens += usage.prompt
                g.cached_tokens += usage.cached
                g.prompts.observe(usage.prompt)
                step = spoilt.token or self.model.token_seconds
                g.first_token.observe(started - began + usage.prompt / _PREFILL_PER_SECOND + spoilt.delay + step)
                chosen = self._pieces(wish)
                pace = self._pace(step, len(chosen), spoilt)
                for piece in chosen:
                    await pace.wait()
                    usage.completion += 1
                    held += 1
                    g.used_tokens += 1
                    g.generated_tokens += 1
                    if usage.completion > 1:
                        g.between_tokens.observe(step)
                    reason = piece.finish or reason
                    yield piece
                g.throughput = 1.0 / step
            finally:
                g.used_tokens -= held
                g.finished[reason] = g.finished.get(reason, 0) + 1
                g.generations.observe(usage.completion)
                spent = spoilt.delay + usage.completion * (spoilt.token or self.model.token_seconds)
                g.decoding.observe(spent)
                g.whole.observe(started - began + spent)

    def _pieces(self, wish: Wish) -> list[Piece]:
        if wish.said is not None:
            text, natural = iter(words.tokens(wish.said)), len(words.tokens(wish.said))
        else:
            text, natural = words.answer(self.model.name, wish.question), words.natural_length(wish.question)
        most = max(wish.limit, 1) if wish.limit is not None else natural
        length = most if wish.ignore_end and wish.said is None else min(natural, most)
        chosen = list(itertools.islice(text, length))
        cut = self._stopped(chosen, wish.stop)
        if cut is not None:
            return [*(Piece(p) for p in cut[:-1]), Piece(cut[-1] if cut else "", "stop")]
        finish = "length" if length < natural or wish.ignore_end else "stop"
        return [*(Piece(p) for p in chosen[:-1]), Piece(chosen[-1], finish)]

    @staticmethod
    def _stopped(chosen: list[str], stop: tuple[str, ...]) -> list[str] | None:
        """The pieces before the first stop word; None when there is none."""
        whole = "".join(chosen)
        places = [p for word in stop if word and (p := whole.find(word)) >= 0]
        if not places:
            return None
        found, left = [], min(places)
        for piece in chosen:
            if left <= 0:
                break
            found.append(piece[:left])
            left -= len(piece)
        return found

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        g = self.gauges
        g.waiting += 1
        try:
            await self._places.acquire()
        finally:
            g.waiting -= 1
        g.running += 1
        try:
            yield
        finally:
            g.running -= 1
            self._places.release()

    async def _pass(self, seconds: float, spoilt: Spoiling) -> None:
        if spoilt.delay:
            await self.moments.until(self.moments.now() + seconds)
        else:
            await asyncio.sleep(min(seconds / self.moments.rate, _LONGEST_REAL_SECONDS / 5))

    def _pace(self, step: float, length: int, spoilt: Spoiling) -> _Pace:
        real = length * step / self.moments.rate
        return _Pace((real if spoilt.token else min(real, _LONGEST_REAL_SECONDS)) / max(length, 1))


class _Pace:
    """Waits for each token; waits that are too short to be kept are saved up."""

    def __init__(self, real_seconds: float) -> None:
        self._each, self._owed = real_seconds, 0.0

    async def wait(self) -> None:
        """One token's time."""
        self._owed += self._each
        if self._owed >= _SHORTEST_SLEEP:
            await asyncio.sleep(self._owed)
            self._owed = 0.0
