"""Say how much of the pure rooms the tests reach, branches included; fail below what they reached before."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

PURE = ("model/", "isolation/", "audit/")
LEAST = 0.97


def main(report: str) -> int:
    """Print the share for every pure file that is not whole; return 1 when all together are below LEAST."""
    covered = valid = 0
    for file in ET.parse(report).iter("class"):  # noqa: S314  made by our own test run
        name = file.get("filename", "")
        if not name.removeprefix("src/gpuward/").startswith(PURE):
            continue
        hit, all_of_it, missing = _count(file)
        covered, valid = covered + hit, valid + all_of_it
        if missing:
            sys.stdout.write(f"  {name}: {', '.join(missing)}\n")
    share = covered / valid if valid else 0.0
    sys.stdout.write(f"pure rooms: {share:.1%} of lines and branches reached (least {LEAST:.0%})\n")
    return 0 if share >= LEAST else 1


def _count(file: ET.Element) -> tuple[int, int, list[str]]:
    hit = total = 0
    missing = []
    for line in file.iter("line"):
        reached = line.get("hits") != "0"
        hit, total = hit + reached, total + 1
        branches = line.get("condition-coverage", "")
        if branches:
            taken, ways = branches.partition("(")[2].rstrip(")").split("/")
            hit, total = hit + int(taken), total + int(ways)
            reached = reached and taken == ways
        if not reached:
            missing.append(line.get("number", "?"))
    return hit, total, missing


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or [str(Path(".coverage.xml"))])))
