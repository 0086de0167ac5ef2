# SPDX-License-Identifier: Apache-2.0
"""What must be true of a run directory and of the machine after a run was broken, however that was done."""

from __future__ import annotations

import csv
import json
import time
import uuid
from collections import Counter
from pathlib import Path

from binaries import BUILD, PATIENCE, table

MARK = "OVL_TEST_MARK"


def mark() -> dict[str, str]:
    """A variable of one job: every process that it starts, whoever starts it, has it too."""
    return {MARK: uuid.uuid4().hex}


def left_behind(marked: dict[str, str]) -> list[int]:
    """The processes of a job that are still there; those that wait for their parent to look at them are not."""
    wanted = f"{MARK}={marked[MARK]}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(folder.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def orphans(marked: dict[str, str]) -> list[int]:
    """Those that do not end by themselves, though all that a test started have."""
    until = time.monotonic() + PATIENCE / 4
    while (there := left_behind(marked)) and time.monotonic() < until:
        time.sleep(0.02)
    return there


def unsound(directory: Path) -> list[str]:
    """What of a run directory cannot be read; an unterminated last line was being written."""
    wrong = []
    for path in directory.rglob("*.json"):
        try:
            if not path.name.startswith("."):
                json.loads(path.read_text())
        except ValueError as error:
            wrong.append(f"{path.name}: {error}")
    for path in directory.glob("*.csv"):
        text = path.read_text()
        try:
            records = list(csv.reader(text[: text.rfind("\n") + 1].splitlines(), strict=True))
        except csv.Error as error:
            wrong.append(f"{path.name}: {error}")
            continue
        if len({len(record) for record in records}) > 1:
            wrong.append(f"{path.name}: lines of several lengths")
    return wrong


def rows_of(directory: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The finished cases, each by its key and launch."""
    rows = table(directory / "summary.csv")
    found = {(row["key"], row["launch"]): row for row in rows}
    assert len(found) == len(rows), "a case has two rows"
    return found


def measured_twice(directory: Path) -> bool:
    columns = ("key", "launch", "round", "position", "arm", "rank", "slot")
    seen = [tuple(row[c] for c in columns) for row in table(directory / "samples.csv")]
    return len(seen) != len(set(seen))


def tell(what: str, counts: Counter[str]) -> None:
    """One line for the log of a whole test run, which scripts/test prints."""
    line = f"{what}: " + ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    print(line)
    with (BUILD / "counts.txt").open("a") as log:
        log.write(line + "\n")
