"""Write the digest of every bundle in a folder into its bundle.json: ``python tools/pin_bundles.py FOLDER``.

Run after changing a stand-in by hand, and by deploy/container/bundles/build-bundles after rendering the charts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from instantstart.ensure.installs import bundles


def pin(folder: Path) -> str:
    """Pin one bundle; its digest."""
    path = folder / bundles.DESCRIPTION
    told = json.loads(path.read_text())
    told["digest"] = bundles.digest_of(folder, tuple(told["files"]))
    path.write_text(json.dumps(told, indent=2) + "\n")
    bundles.read(folder)  # refuse here, and not in production, what would be refused there
    return str(told["digest"])


def main() -> None:
    """Pin all and say so."""
    for description in sorted(Path(sys.argv[1]).glob(f"*/{bundles.DESCRIPTION}")):
        print(description.parent.name, pin(description.parent))


if __name__ == "__main__":
    main()
