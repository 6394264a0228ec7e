"""`python -m recipec.probe FOLDER SECONDS [--cpu]`: measure this machine, print JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from recipec.probe.run import measure


def main() -> None:
    """Measure within about so many seconds, and write and read files in the folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    print(msgspec.json.encode(measure(args.folder, args.seconds, args.cpu)).decode())


if __name__ == "__main__":
    main()
