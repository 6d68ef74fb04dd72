"""A container's log as blocks of lines, and places in it: what came so far can be said, and be gone on from, without a line twice.

The API gives each line its time (``timestamps=true``), nanoseconds of the node, so a place is the time of the last line and how many lines
bear that very time. Work is done on whole blocks, not on lines: two hundred containers that talk at once must not fill a processor.
"""

from __future__ import annotations

import re

import msgspec

from instantstart.base import log

#: what is longer is cut, and says so: a line is for reading
LONGEST_LINE = 16 * 1024
_STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_LINE = re.compile(_STAMP + rb" [^\n]{0,%d}+\n" % LONGEST_LINE)
_WHOLE = re.compile(rb"(?:" + _LINE.pattern + rb")++")
_POSITION = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))#(\d{1,9})")
_UNTIMED = b"1970-01-01T00:00:00Z"


class Position(msgspec.Struct, frozen=True, gc=False):
    """A place in a log: after the line of the time ``at`` (RFC 3339) that is the ``count``-th of it; 0: after all of that time."""

    at: str
    count: int

    def __str__(self) -> str:
        return f"{self.at}#{self.count}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """What ``str`` of one gave; None for anything else."""
        found = _POSITION.fullmatch(text)
        return cls(found[1], int(found[2])) if found else None


def reached(block: bytes, before: Position | None, begun_inside: bool = False) -> Position:
    """The place after a block that follows ``before``. ``begun_inside``: lines of the block's first time may have been left out."""
    start = block.rfind(b"\n", 0, len(block) - 1) + 1
    stamp = block[start : block.index(b" ", start)]
    at = stamp.decode()
    if before is not None and at < before.at:
        return before  # two streams of one container may come a microsecond out of order
    first = block.startswith(stamp + b" ")
    count = block.count(b"\n" + stamp + b" ") + first
    if before is not None and at == before.at:
        return Position(at, before.count and before.count + count)
    return Position(at, 0 if first and begun_inside else count)


class Resuming:
    """Leaves out what was told already: everything up to a place in the log."""

    def __init__(self, seen: Position) -> None:
        self._at, self._left = seen.at.encode(), seen.count
        self._all = seen.count == 0
        #: the place has been passed: nothing is left out any more
        self.over = False
        #: the last line told was there: nothing is missing in between
        self.met = False

    def cut(self, block: bytes) -> bytes:
        """What of a block is new."""
        start = 0
        while start < len(block) and not self.over:
            stamp = block[start : block.index(b" ", start)]
            same = stamp == self._at
            self.met = self.met or same
            if stamp > self._at or (same and not self._all and self._left == 0):
                self.over = True
                break
            self._left -= same
            start = block.index(b"\n", start) + 1
        return block[start:]


def tidy(block: bytes, last: Position | None) -> bytes:
    """Whole lines, each with its time and of bounded length. What came without one (the kubelet's own words) gets the last one seen."""
    if _is_plainly_whole(block) or _WHOLE.fullmatch(block):
        return block
    stamp = last.at.encode() if last else _UNTIMED
    told = []
    for line in block[:-1].split(b"\n"):
        whole = line + b"\n"
        if not _LINE.fullmatch(whole):
            whole = _mended(line, stamp)
        stamp = whole.partition(b" ")[0]
        told.append(whole)
    return b"".join(told)


def _is_plainly_whole(block: bytes) -> bool:
    """Whether every line begins as a time of this century does, the first is one, and none can be too long: cheap, and mostly so."""
    if len(block) > LONGEST_LINE or not block.startswith(b"20") or not _LINE.match(block):
        return False
    return block.count(b"\n20") == block.count(b"\n") - 1


def _mended(line: bytes, stamp: bytes) -> bytes:
    head, _, text = line.partition(b" ")
    if not re.fullmatch(_STAMP, head):
        head, text = stamp, line
    if len(text) > LONGEST_LINE:
        left = len(text) - LONGEST_LINE
        text = text[:LONGEST_LINE] + b" ... [%d bytes more]" % left
    return head + b" " + text + b"\n"


def text_of(block: bytes) -> str:
    """A block as text: torn or foreign bytes become replacement characters, secrets that have a look of their own are hidden."""
    text = block.decode("utf-8", "replace")
    return str(log.redact(text)) if _may_hold_a_secret(text) else text


def _may_hold_a_secret(text: str) -> bool:
    """Whether there is a sign without which ``log.redact`` finds nothing; looked for one by one, since that is quickest."""
    return (
        "ist_" in text
        or "hf_" in text
        or "Bearer" in text
        or "AKIA" in text
        or "ASIA" in text
        or "k8s-aws-v1." in text
        or "X-Amz-S" in text
    )


class Sieve:
    """Keeps the lines that contain a text (letters large or small), with some lines of context; goes on from block to block."""

    def __init__(self, search: str, context: int = 0) -> None:
        self._search, self._context = search.casefold(), context
        self._before: list[str] = []
        self._after = 0

    def keep(self, lines: list[str]) -> list[str]:
        """What of these lines is to be shown."""
        kept: list[str] = []
        for line in lines:
            if self._search in plain(line.partition(" ")[2]).casefold():
                kept += [*self._before, line]
                self._before, self._after = [], self._context
            elif self._after:
                kept.append(line)
                self._after -= 1
            elif self._context:
                self._before = [*self._before, line][-self._context :]
        return kept


_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def plain(text: str) -> str:
    """Without its colours, so that a word that is half red is still found."""
    return _COLOURS.sub("", text) if "\x1b" in text else text
