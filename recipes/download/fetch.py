"""Bring a repository of the model hub into a mounted volume: the entry point of InstantStart's download job.

Standard library only, so that any Python image will do and nothing is installed when it starts. What it says is one JSON object a line:

    {"event": "progress", "done": BYTES, "total": BYTES, "files": N, "of": N}
    {"event": "done", "commit": ..., "files": N, "bytes": BYTES, "already": N}
    {"event": "failed", "code": ..., "message": ...}

Exit status: 0 done; 42 trying again will not help (no such repository, no access, no space); 1 otherwise. A file that is at its
destination with its size is not fetched again. With ``--staging`` each file is first complete there and then written from start to end
into the destination: Mountpoint for S3 knows no appending and no renaming. Without it, a file is written beside its name and renamed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import errno
import fnmatch
import hashlib
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

MARKER = ".instantstart.json"
FINAL = 42
CHUNK = 4 * 1024 * 1024
TRIES = 5
PROGRESS_SECONDS = 2.0
TIMEOUT_SECONDS = 60.0


class DownloadError(Exception):
    """The end: ``code`` for programs, the message for people; ``final`` when another try would end the same."""

    def __init__(self, code: str, message: str, final: bool = True) -> None:
        super().__init__(message)
        self.code, self.final = code, final


def say(event: str, **facts: Any) -> None:
    """One line for whoever reads the log."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


class Hub:
    """The hub's HTTP API. The token comes from the environment, stripped: a newline at its end is a common mishap."""

    def __init__(self, url: str, kind: str, repository: str) -> None:
        self.url, self.kind, self.repository = url.rstrip("/"), kind, repository
        self.token = os.environ.get("HF_TOKEN", "").strip()

    def files(self, commit: str) -> list[dict[str, Any]]:
        """Every file of the commit: path, size, sha256 of large ones."""
        plural = "models" if self.kind == "model" else "datasets"
        path = f"/api/{plural}/{urllib.parse.quote(self.repository)}/revision/{urllib.parse.quote(commit, safe='')}?blobs=true"
        with self.open(path) as answer:
            told = json.load(answer)
        found = []
        for each in told.get("siblings", []):
            large = each.get("lfs") or {}
            size = large.get("size", each.get("size")) or 0
            found.append({"path": each["rfilename"], "size": int(size), "sha256": large.get("sha256")})
        return found

    def open(self, path: str, start: int = 0) -> Any:
        """An answer to read, from byte ``start`` on. Throttling and passing failures are tried again, refusals are final."""
        headers = {"User-Agent": "instantstart-download"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if start:
            headers["Range"] = f"bytes={start}-"
        for attempt in range(TRIES):
            try:
                # the hub's address is the operator's setting: http or https
                return urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=TIMEOUT_SECONDS)  # noqa: S310
            except urllib.error.HTTPError as error:
                wait = self._judge(error, attempt)
            except OSError as error:
                if attempt == TRIES - 1:
                    raise DownloadError("unreachable", f"The hub at {self.url} cannot be reached: {error}", final=False) from error
                wait = 2.0**attempt
            time.sleep(wait)
        raise DownloadError("unreachable", f"The hub at {self.url} does not answer.", final=False)

    def _judge(self, error: urllib.error.HTTPError, attempt: int) -> float:
        code = error.headers.get("X-Error-Code", "")
        if error.code == 429 or error.code >= 500:
            if attempt == TRIES - 1:
                raise DownloadError("busy", f"The hub answers {error.code}.", final=False) from error
            told = error.headers.get("Retry-After", "")
            return float(told) if told.isdigit() else 2.0**attempt
        if code == "GatedRepo" or (error.code == 403 and self.token):
            what = "the owner of the token has not accepted its licence" if self.token else "it needs a token"
            raise DownloadError("gated", f"{self.repository} is gated: {what}.") from error
        if error.code in (401, 403):
            raise DownloadError("denied", f"{self.repository} is private or not there; the hub does not tell which.") from error
        if error.code == 404:
            raise DownloadError("missing", f"{self.repository} is not on the hub, or has no such revision or file.") from error
        raise DownloadError("refused", f"The hub answers {error.code}.") from error

    def resolve(self, commit: str, path: str) -> str:
        """The address of a file."""
        prefix = "" if self.kind == "model" else "datasets/"
        return f"/{prefix}{urllib.parse.quote(self.repository)}/resolve/{commit}/{urllib.parse.quote(path)}"


class Progress:
    """How many bytes are there; said now and then, from whichever thread notices first."""

    def __init__(self, total: int, count: int) -> None:
        self.total, self.count, self.done, self.files = total, count, 0, 0
        self._lock, self._said = threading.Lock(), 0.0

    def add(self, size: int, files: int = 0) -> None:
        """Count, and say it when the last saying is a while ago."""
        with self._lock:
            self.done += size
            self.files += files
            if time.monotonic() - self._said >= PROGRESS_SECONDS:
                self._said = time.monotonic()
                say("progress", done=self.done, total=self.total, files=self.files, of=self.count)


def chosen(files: list[dict[str, Any]], include: list[str], exclude: list[str]) -> list[dict[str, Any]]:
    """The files that a pattern of ``include`` takes (all without one) and none of ``exclude``."""

    def takes(path: str) -> bool:
        wanted = not include or any(fnmatch.fnmatch(path, pattern) for pattern in include)
        return wanted and not any(fnmatch.fnmatch(path, pattern) for pattern in exclude)

    return [each for each in files if takes(each["path"])]


def safe(folder: Path, path: str) -> Path:
    """Where a file of the repository goes. A path that leads out of the folder is refused: it is text of others."""
    target = (folder / path).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise DownloadError("unsafe_path", f"The repository names a file outside of the destination: {path!r}.")
    return target


def fetch(hub: Hub, args: argparse.Namespace, wanted: dict[str, Any], progress: Progress) -> bool:
    """Bring one file to its destination; False when it is there already."""
    target = safe(Path(args.destination), wanted["path"])
    if target.is_file() and target.stat().st_size == wanted["size"]:
        progress.add(wanted["size"], 1)
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = safe(Path(args.staging), wanted["path"]) if args.staging else target.with_name(target.name + ".part")
    beside.parent.mkdir(parents=True, exist_ok=True)
    download(hub, args.commit, wanted, beside, progress)
    if args.staging:
        place(beside, target)
        beside.unlink()
    else:
        os.replace(beside, target)
    if target.stat().st_size != wanted["size"]:
        raise DownloadError("corrupt", f"{wanted['path']} has another size at its destination than on the hub.", final=False)
    progress.add(0, 1)
    return True


def download(hub: Hub, commit: str, wanted: dict[str, Any], into: Path, progress: Progress) -> None:
    """The file, complete and verified: its size, and its sha256 where the hub tells one. A torn answer goes on where it stopped."""
    digest, have = hashlib.sha256(), 0
    with into.open("wb") as out:
        for _ in range(TRIES):
            try:
                with hub.open(hub.resolve(commit, wanted["path"]), have) as answer:
                    if have and answer.status != 206:
                        out.seek(0)
                        out.truncate()
                        progress.add(-have)
                        digest, have = hashlib.sha256(), 0
                    for block in iter(lambda: answer.read(CHUNK), b""):
                        out.write(block)
                        digest.update(block)
                        have += len(block)
                        progress.add(len(block))
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise
            if have >= wanted["size"]:
                break
    if have != wanted["size"]:
        told = f"{wanted['path']} came with {have} bytes; the hub lists {wanted['size']}: an error page, or a cut."
        raise DownloadError("corrupt", told, final=False)
    if wanted["sha256"] and digest.hexdigest() != wanted["sha256"]:
        raise DownloadError("corrupt", f"{wanted['path']} has another sha256 than the hub lists.", final=False)


def place(source: Path, target: Path) -> None:
    """Write a new file from start to end: what Mountpoint allows. One that is there in part goes first."""
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    with source.open("rb") as read, target.open("wb") as out:
        for block in iter(lambda: read.read(CHUNK), b""):
            out.write(block)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Everything; what is said at the end."""
    hub = Hub(args.hub, args.kind, args.repository)
    files = chosen(hub.files(args.commit), args.include, args.exclude)
    if not files:
        raise DownloadError("nothing_chosen", "No file of the repository fits the patterns.")
    progress = Progress(sum(each["size"] for each in files), len(files))
    with ThreadPoolExecutor(args.workers) as pool:
        fetched = list(pool.map(lambda each: fetch(hub, args, each, progress), files))
    facts = {"commit": args.commit, "files": len(files), "bytes": progress.total}
    mark(args, facts)
    return {**facts, "already": fetched.count(False)}


def mark(args: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Leave word in the folder of what it holds."""
    text = json.dumps(
        {
            "repository": args.repository,
            "kind": args.kind,
            "revision": args.revision,
            **facts,
            "finished_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
    )
    target = Path(args.destination) / MARKER
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    target.write_text(text, encoding="utf-8")


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Bring a repository of the model hub into a folder.")
    parser.add_argument("--hub", required=True)
    parser.add_argument("--kind", choices=("model", "dataset"), default="model")
    parser.add_argument("--repository", required=True)
    parser.add_argument("--revision", default="main")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--exclude", action="append", default=[])
    parser.add_argument("--destination", required=True)
    parser.add_argument("--staging", default="")
    parser.add_argument("--workers", type=int, default=4)
    return parser.parse_args(argv)


def main(argv: list[str]) -> NoReturn:
    """Run, and end with the status that the job's policy understands."""
    try:
        say("done", **run(parse(argv)))
    except DownloadError as failed:
        say("failed", code=failed.code, message=str(failed))
        sys.exit(FINAL if failed.final else 1)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        say("failed", code="no_space" if full else "not_written", message=str(error))
        sys.exit(FINAL if full else 1)
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
