# SPDX-License-Identifier: Apache-2.0
"""Reads a run directory: run.json, whose ``tables`` are the schemas of all tables, and the tables.

All text of a run is data: it is never a path, never markup. Numbers come back as float64, an empty field is NaN
(unknown, never zero); text columns hold str, an empty field is "". Every fault is a ``Problem`` with file, line and
column; ``read_run`` collects them all for ``check``, ``load_run`` raises the first for whoever only wants to draw.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SCHEMA_VERSION = 1
_NEWER = {"fits": 2}  # tables whose later version only adds columns
TABLES = ("summary", "samples", "operations", "series", "launches", "fits", "choices")

# What a C++ or Python writer prints for a finite number; no nan, inf, hexadecimal or underscore.
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# Times that may never come: there infinity is a number.
_MAY_BE_NEVER = ("drain_time_s", "fluid_drain_time")
_INTEGER = re.compile(r"[+-]?\d+")


class RunError(Exception):
    """One line for the user: what is wrong, why, what to do instead. ``status`` is the exit code."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Problem:
    """A fault of a run directory. ``line`` counts from 1; 0 means the whole file."""

    file: str
    line: int
    column: str  # or, of run.json, the path of the entry
    got: str
    expected: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        column = f"{'column ' if self.line else ''}{self.column}: " if self.column else ""
        return f"{place}: {column}got {self.got}, expected {self.expected}"


@dataclass(frozen=True)
class Column:
    name: str
    type: str  # text, integer or real
    unit: str  # "s", "B", "B/s", "1" (a ratio); empty for text
    description: str


class Columns(dict[str, Column]):
    """By name. pandas copies what a frame's attrs hold, and all within it, whenever it takes a row: these stay the same
    objects, since nothing changes them."""

    def __deepcopy__(self, memo: object) -> Columns:
        return self


@dataclass(frozen=True)
class Schema:
    table: str
    version: int
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]


@dataclass(frozen=True)
class Table:
    schema: Schema
    frame: pd.DataFrame  # its attrs["columns"] maps a name to its Column, so that figures can label axes
    lines: list[int]  # line of the file on which each row begins
    unterminated: bool  # a last line without its end was ignored: it was being written when the writer died


@dataclass
class Run:
    directory: Path
    name: str
    about: Mapping[str, Any] = field(default_factory=dict)  # run.json
    schemas: dict[str, Schema] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    @property
    def device(self) -> str:
        return self._text("identity", "backend", "device")

    @property
    def date(self) -> str:
        return self._text("run", "date")

    @property
    def tool(self) -> str:
        """``overlapbench 0.1.0``; a build that is no Release says so."""
        build = f"overlapbench {self._text('identity', 'build', 'version')}".rstrip()
        return f"{build} (not a Release build)" if self._entry("identity", "build", "release") is False else build

    @property
    def facts(self) -> tuple[str, ...]:
        """What the footer of a picture says of the run."""
        return (f"run {self.name}", self.device or "device unknown", self.date or "date unknown", self.tool)

    @property
    def origin(self) -> str:
        """The same in a line, for a picture of several."""
        about = " · ".join(filter(None, (self.device, self.date)))
        return f"run {self.name} ({about or 'device unknown'}, {self.tool})"

    def _text(self, *path: str) -> str:
        value = self._entry(*path)
        return value if isinstance(value, str) else ""

    def _entry(self, *path: str) -> Any:
        value: Any = self.about
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def frame(self, table: str) -> pd.DataFrame | None:
        return self.tables[table].frame if table in self.tables else None

    def traces(self) -> Iterator[tuple[Path, Any]]:
        """The files of timeline/ as JSON, in name order. Found by listing the folder, never by a name in a table."""
        for path in sorted((self.directory / "timeline").glob("*.json")):
            try:
                yield path, json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, RecursionError) as error:
                raise RunError(f"{path} cannot be read ({error}); measure again with --timeline") from error


def load_run(directory: Path) -> Run:
    """The run, or RunError with the first problem."""
    run, problems = read_run(directory)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise RunError(f"{directory}: {problems[0]}{more}; `overlap-plots check {directory}` lists everything")
    return run


def read_run(directory: Path) -> tuple[Run, list[Problem]]:
    """The run as far as it can be read, and every fault in its form. RunError when it is no run directory at all."""
    if not directory.is_dir():
        raise RunError(f"{directory} is not a directory; name one that an overlap bench wrote with --out")
    about_file = directory / "run.json"
    if not about_file.is_file():
        raise RunError(f"{directory} holds no run.json, so it is no run directory; name the DIR given to --out")
    run = Run(directory, directory.resolve().name)
    problems: list[Problem] = []
    try:
        about = json.loads(about_file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return run, [Problem("run.json", 0, "", str(error), "JSON text in UTF-8")]
    if not isinstance(about, dict):
        return run, [Problem("run.json", 0, "", type(about).__name__, "a JSON object")]
    run.about = about
    run.schemas = _read_schemas(about.get("tables"), problems.append)
    for table in TABLES:
        path = directory / f"{table}.csv"
        if path.is_file() and table in run.schemas:
            read = read_table(path, run.schemas[table], problems.append)
            if read is not None:
                run.tables[table] = read
        elif path.is_file() and isinstance(about.get("tables"), dict):
            problems.append(Problem(path.name, 0, "", "a table without a schema", f'"{table}" in run.json\'s tables'))
    if "summary" not in run.tables and not problems:
        problems.append(Problem("summary.csv", 0, "", "no such file", "one row a case"))
    return run, problems


def _read_schemas(document: Any, report: Callable[[Problem], None]) -> dict[str, Schema]:
    if not isinstance(document, dict):
        report(Problem("run.json", 0, "tables", type(document).__name__, "an object of table schemas"))
        return {}
    schemas = {}
    for table, entry in document.items():
        try:
            columns = tuple(
                Column(str(c["name"]), str(c["type"]), str(c.get("unit", "")), str(c.get("description", "")))
                for c in entry["columns"]
            )
            schema = Schema(table, int(entry["version"]), columns)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            report(Problem("run.json", 0, f"tables.{table}", repr(error), "{version, columns: [{name, type, unit}]}"))
            continue
        unknown = [c for c in columns if c.type not in ("text", "integer", "real")]
        for column in unknown:
            where = f"tables.{table}.{column.name}"
            report(Problem("run.json", 0, where, f'type "{column.type}"', "text, integer or real"))
        newest = _NEWER.get(table, SCHEMA_VERSION)
        if not SCHEMA_VERSION <= schema.version <= newest:
            got = f"schema version {schema.version}"
            expected = f"{newest}, the {'one' if newest == SCHEMA_VERSION else 'newest'} this package reads"
            report(Problem("run.json", 0, f"tables.{table}", got, expected))
        elif not unknown:
            schemas[table] = schema
    return schemas


def read_table(path: Path, schema: Schema, report: Callable[[Problem], None]) -> Table | None:
    """One table, typed by its schema. None (and reported problems) when the header is not the schema's."""
    try:
        records, unterminated = _records(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError) as error:
        report(Problem(path.name, 0, "", str(error), "CSV text in UTF-8"))
        return None
    if not records:
        report(Problem(path.name, 0, "", "an empty file", "a header line"))
        return None
    header = records[0][1]
    if header != schema.names:
        _report_header(path.name, header, schema.names, report)
        return None
    lines = []
    rows = []
    for line, record in records[1:]:
        if len(record) != len(header):
            report(Problem(path.name, line, "", f"{len(record)} fields", f"{len(header)}, as in the header"))
        else:
            lines.append(line)
            rows.append(record)
    columns = {}
    for index, column in enumerate(schema.columns):
        texts = [row[index] for row in rows]
        columns[column.name] = _typed(texts, column, path.name, lines, report)
    frame = pd.DataFrame(columns, columns=schema.names)
    frame.attrs["columns"] = Columns((c.name, c) for c in schema.columns)
    return Table(schema, frame, lines, unterminated)


def _records(text: str) -> tuple[list[tuple[int, list[str]]], bool]:
    """Every record with the line it begins on, and whether an unterminated last line was left out."""
    terminated = text.endswith("\n") or not text
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    records = []
    line = 1
    try:
        for record in reader:
            records.append((line, record))
            line = reader.line_num + 1
    except csv.Error as error:
        if not terminated and line == reader.line_num:  # cut within a quoted field of its last line
            return records, True
        raise ValueError(f"text that is no CSV from line {line} on ({error})") from error
    return (records, False) if terminated else (records[:-1], True)


def _report_header(file: str, got: list[str], expected: list[str], report: Callable[[Problem], None]) -> None:
    for position, (g, e) in enumerate(zip(got, expected, strict=False), start=1):
        if g != e:
            report(Problem(file, 1, str(position), f'"{g}"', f'"{e}", as run.json says'))
            return
    report(Problem(file, 1, "", f"{len(got)} columns", f"{len(expected)}, as run.json says"))


def _typed(
    texts: list[str], column: Column, file: str, lines: list[int], report: Callable[[Problem], None]
) -> pd.Series[Any]:
    if column.type == "text":
        return pd.Series(texts, dtype=object)
    pattern, kind = (_INTEGER, "an integer") if column.type == "integer" else (_REAL, "a real number")
    values = np.full(len(texts), math.nan)
    for row, text in enumerate(texts):
        if pattern.fullmatch(text) or (text == "inf" and column.name in _MAY_BE_NEVER):
            values[row] = float(text)
        elif text:
            unit = f" ({column.unit})" if column.unit not in ("", "1") else ""
            report(Problem(file, lines[row], column.name, f'"{text}"', f"{kind}{unit} or an empty field"))
    return pd.Series(values)
