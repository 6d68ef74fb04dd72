"""``tools/kube-reference``: print the kubeconfig of a real Kubernetes, started here if need be.

In this order: the cluster of INSTANTSTART_REFERENCE_KUBECONFIG; one started here before that still runs; binaries in KUBEBUILDER_ASSETS;
binaries built from Go modules (kept in ~/.cache/instantstart/kube-reference). Exit code 3: none of these is to be had here.
"""

from __future__ import annotations

import argparse
import os
import sys

from tools.kube_reference import binaries, serving


def main() -> int:
    """Answers the exit code."""
    parser = argparse.ArgumentParser(prog="tools/kube-reference", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stop", action="store_true", help="end the servers that were started here")
    parser.add_argument("--build", action="store_true", help="make the binaries, start nothing")
    parser.add_argument("--no-build", action="store_true", help="do with what is there; build nothing")
    parser.add_argument("--fresh", action="store_true", help="start anew with empty storage, even if one runs")
    wanted = parser.parse_args()
    if wanted.stop:
        binaries.say("The reference is stopped." if serving.stop() else "No reference was running.")
        return 0
    try:
        if wanted.build:
            print(binaries.find().folder)
            return 0
        print(_kubeconfig(fresh=wanted.fresh, build=not wanted.no_build))
    except binaries.UnavailableError as reason:
        binaries.say(f"No reference Kubernetes: {reason}")
        return 3
    return 0


def _kubeconfig(*, fresh: bool, build: bool) -> str:
    given = os.environ.get("INSTANTSTART_REFERENCE_KUBECONFIG")
    if given:
        return given
    if not fresh and serving.healthy():
        return str(serving.kubeconfig())
    found = binaries.find(build=build)
    binaries.say(f"Starting {found.origin}.")
    return str(serving.start(found))


if __name__ == "__main__":
    sys.exit(main())
