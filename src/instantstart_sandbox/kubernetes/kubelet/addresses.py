"""Where pods live on this machine: each has a loopback address of its own, and what it listens on is read from the kernel.

A hundred pods may listen on port 8000 at once, as in a cluster. A program that knows of ``INSTANTSTART_SANDBOX_POD_IP`` listens there;
one that listens on 0.0.0.0 or 127.0.0.1 is found by the sockets its processes hold, so that no pod is ever taken for another.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_LISTEN = "0A"
_TABLES = (("/proc/net/tcp", 4), ("/proc/net/tcp6", 6))


def loopback_address(uid: str) -> str:
    """An address in 127.0.0.0/8 that is the pod's as long as it lives; 127.0.0.0/16 is left to everybody else."""
    digest = hashlib.sha256(uid.encode()).digest()
    return f"127.{digest[0] % 254 + 1}.{digest[1]}.{digest[2] % 254 + 1}"


def listener(own: str, marks: frozenset[bytes], sessions: frozenset[int], port: int) -> str | None:
    """The address at which one of the pod's processes takes connections on ``port``; None when none does.

    ``own`` is the pod's address; the processes are those of ``sessions`` and those that bear one of ``marks`` in their environment.
    """
    listening = dict(_listening(port))
    if not listening:
        return None
    held = {listening[inode] for inode in _sockets(marks, sessions, frozenset(listening))}
    if own in held or any(ipaddress.ip_address(a).is_unspecified for a in held):
        return own
    return min(held, default=None)


def _listening(port: int) -> Iterator[tuple[int, str]]:
    """(inode, address) of every socket that listens on the port."""
    for table, family in _TABLES:
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, _, number = fields[1].partition(":")
            if fields[3] == _LISTEN and int(number, 16) == port:
                yield int(fields[9]), _address(address, family)


def _address(text: str, family: int) -> str:
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    raw = b"".join(words)
    return str(ipaddress.IPv4Address(raw) if family == 4 else ipaddress.IPv6Address(raw))


def _sockets(marks: frozenset[bytes], sessions: frozenset[int], wanted: frozenset[int]) -> Iterator[int]:
    """Those of the wanted inodes that a process of the pod holds."""
    for process in _processes(marks, sessions):
        try:
            links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{process}/fd")]
        except OSError:
            continue
        for link in links:
            if link.startswith("socket:[") and int(link[8:-1]) in wanted:
                yield int(link[8:-1])


def _processes(marks: frozenset[bytes], sessions: frozenset[int]) -> Iterable[str]:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"/proc/{entry.name}/stat", "rb") as file:
                session = int(file.read().rpartition(b")")[2].split()[3])
            if session in sessions:
                yield entry.name
                continue
            with open(f"/proc/{entry.name}/environ", "rb") as file:
                if not marks.isdisjoint(file.read().split(b"\0")):
                    yield entry.name
        except (OSError, ValueError, IndexError):
            continue
