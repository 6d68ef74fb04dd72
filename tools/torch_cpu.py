"""PyTorch for the CPU, fetched on demand and installed nowhere: what the long tests of recipes/ train with.

PyPI's wheels for Linux bring CUDA and weigh gigabytes. Debian's python3-torch is built for the CPU: about 150 MB, unpacked (627 MB) into a
cache folder, so that neither root nor a change of the system is needed. Where a PyTorch is installed already, that one is used.

    python tools/torch_cpu.py         print the interpreter and the variables it needs, or the reason why there is none (status 1)
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "python3-torch"
#: Debian's PyTorch is for Debian's own interpreter
SYSTEM_PYTHON = "/usr/bin/python3"
_PATIENCE_SECONDS = 420
_TRIPLET = f"usr/lib/{platform.machine()}-linux-gnu"
_LIBRARIES = (_TRIPLET.removeprefix("usr/"), "usr/lib", _TRIPLET, f"{_TRIPLET}/blas", f"{_TRIPLET}/lapack")
#: 1.13 on Python 3.11: iterating a Flag leaves out its zero and its sums, so that torchrun --tee=3 fails
_MENDED = "usr/lib/python3/dist-packages/torch/distributed/elastic/multiprocessing/api.py"


class NotHadError(Exception):
    """PyTorch is not to be had here; the text says why."""


@dataclass(frozen=True)
class Torch:
    """An interpreter with PyTorch, and what its environment needs."""

    python: str
    environment: dict[str, str] = field(default_factory=dict)


def find() -> Torch:
    """The PyTorch of this machine, or one that is fetched now. Raises NotHadError."""
    for python in (sys.executable, SYSTEM_PYTHON):
        if _works(Torch(python)):
            return Torch(python)
    folder = _cache() / "root"
    if not folder.is_dir():
        _fetch(folder)
    return _checked(folder)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "instantstart" / "torch"


def _checked(folder: Path) -> Torch:
    libraries = os.pathsep.join(str(folder / name) for name in _LIBRARIES)
    found = Torch(SYSTEM_PYTHON, {"LD_LIBRARY_PATH": libraries, "PYTHONPATH": str(folder / "usr/lib/python3/dist-packages")})
    if not _works(found):
        raise NotHadError(f"{PACKAGE} in {folder} does not run on this machine; remove the folder to fetch it again")
    return found


def _works(torch: Torch) -> bool:
    if shutil.which(torch.python) is None:
        return False
    argv = [torch.python, "-c", "import torch.distributed.run"]
    return subprocess.run(argv, env={**os.environ, **torch.environment}, capture_output=True, check=False).returncode == 0


def _fetch(folder: Path) -> None:
    """Download what the package needs and the system lacks, and unpack it. The folder is there whole or not at all."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NotHadError(f"no PyTorch is installed, and there is no {tool} to fetch Debian's {PACKAGE} with")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        work = Path(made)
        root = work / "root"
        _run(["apt-get", "download", "-qq", *_wanted()], work)
        for package in sorted(work.glob("*.deb")):
            _run(["dpkg-deb", "--extract", package.name, str(root)], work)
        mended = root / _MENDED
        mended.write_text(mended.read_text().replace("for s in Std:", "for s in Std.__members__.values():"))
        if not folder.is_dir():
            root.rename(folder)


def _wanted() -> list[str]:
    """Names of the packages; the lists of a new machine are fetched first."""
    argv = ["apt-get", "install", "--simulate", "--no-install-recommends", "-qq", PACKAGE]
    told = subprocess.run(argv, capture_output=True, text=True, check=False)
    if told.returncode and os.geteuid() == 0:
        _run(["apt-get", "update", "-qq"], Path("/"))
        told = subprocess.run(argv, capture_output=True, text=True, check=False)
    if told.returncode:
        raise NotHadError(f"apt-get knows no {PACKAGE}: {told.stderr.strip()[-300:]}")
    return [line.split()[1] for line in told.stdout.splitlines() if line.startswith("Inst ")]


def _run(argv: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NotHadError(f"{argv[0]} took more than {_PATIENCE_SECONDS} seconds") from error
    if done.returncode:
        raise NotHadError(f"{argv[0]} failed: {done.stderr.strip()[-300:]}")


def main() -> int:
    """The command."""
    try:
        found = find()
    except NotHadError as error:
        print(error, file=sys.stderr)
        return 1
    print(found.python, *(f"{name}={value}" for name, value in found.environment.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
