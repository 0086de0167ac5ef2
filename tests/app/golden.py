# SPDX-License-Identifier: Apache-2.0
"""Published and independently made numbers of tests/golden."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "golden"


def rows(name: str) -> list[dict[str, str]]:
    """Of a tab-separated file: `#` comment lines, then a header."""
    lines = [line for line in (FOLDER / name).read_text().splitlines() if line and not line.startswith("#")]
    header, *values = (line.split("\t") for line in lines)
    return [dict(zip(header, value, strict=True)) for value in values]
