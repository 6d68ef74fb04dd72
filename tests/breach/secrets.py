"""Marked secrets, and the search for them in everything that a run leaves behind: as they are, in base64, in an address."""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

_PROC = Path("/proc")


def forms(secret: str) -> Iterator[bytes]:
    """How a secret may lie about: plain, quoted, as JSON, in base64 at any of the three offsets."""
    raw = secret.encode()
    yield raw
    yield quote(secret, safe="").encode()
    yield json.dumps(secret)[1:-1].encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            told = encode(b"\0" * offset + raw)
            yield told[(offset * 4 + 2) // 3 : (offset + len(raw)) * 8 // 6]  # the letters that this secret alone decides


@dataclass
class Search:
    """The secrets by name, and what was looked through. ``found``: (secret, where)."""

    secrets: dict[str, str]
    found: set[tuple[str, str]] = field(default_factory=set)
    looked: int = 0

    def text(self, where: str, content: bytes) -> None:
        """Look through some bytes; an archive's contents too."""
        self.looked += 1
        for name, secret in self.secrets.items():
            if any(form in content for form in forms(secret)):
                self.found.add((name, where))
        if content.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(BytesIO(content)) as archive:
                for inner in archive.namelist():
                    self.text(f"{where}!{inner}", archive.read(inner))

    def folder(self, where: str, folder: Path) -> None:
        """Every file below a folder."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.text(f"{where}/{file.relative_to(folder)}", file.read_bytes())

    def processes(self, root: int) -> None:
        """The command lines of a process and all below it, and the environments of those below it."""
        for pid in (root, *below(root)):
            self._of_process(pid, "cmdline")
            if pid != root:
                self._of_process(pid, "environ")

    def _of_process(self, pid: int, what: str) -> None:
        try:
            self.text(f"process {what}", (_PROC / str(pid) / what).read_bytes())
        except OSError:  # it has ended
            return


def below(root: int) -> list[int]:
    """All children of a process, and theirs."""
    parents: dict[int, int] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [root]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]
