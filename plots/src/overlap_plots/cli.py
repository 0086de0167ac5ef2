# SPDX-License-Identifier: Apache-2.0
"""The command line. Paths of what was written and check reports go to stdout, everything else to stderr.

Exit codes: 0 done; 1 a run directory is bad, or a figure that was asked for has no data; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from overlap_plots import registry, schemes, style
from overlap_plots.check import check_run
from overlap_plots.fabrics import load_fabric
from overlap_plots.lab.page import lab_page
from overlap_plots.load import Run, RunError, load_run
from overlap_plots.prediction import cases, table
from overlap_plots.prediction import figure as prediction_figure
from overlap_plots.registry import Absent, Together
from overlap_plots.render import FORMATS, save_pages
from overlap_plots.report.page import report_page

_MOST_PROBLEMS = 50
_MOST_ORIGINS = 4  # that are named in a footer


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RunError(f"{message}; `{self.prog} --help` shows what can be typed", status=2)


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        options = _parser().parse_args(arguments)
        status: int = options.run_command(options)
        return status
    except RunError as error:
        _say(f"overlap-plots: {str(error).replace(chr(10), ' ')}", file=sys.stderr)  # one line
        return error.status


def _say(text: object, file: TextIO | None = None) -> None:
    """Lines on standard output, or elsewhere. A run's texts are data to a terminal too: nothing in them commands it."""
    print("\n".join(style.plain(line) for line in str(text).split("\n")), file=file or sys.stdout)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="overlap-plots", description="Draws and checks overlapbench run directories.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    draw = commands.add_parser("render", help="draw the figures of one or more runs")
    draw.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a directory that an overlap bench wrote")
    draw.add_argument(
        "--figure", metavar="NAME", nargs="+", action="extend", default=[], help="only these (default: all)"
    )
    draw.add_argument("--out", metavar="DIR", type=Path, help="where to (default RUN/plots; of several runs DIR/<run>)")
    draw.add_argument("--format", metavar="LIST", default="png,svg", help="png, svg or both (default png,svg)")
    draw.add_argument("--case", metavar="SUBSTRING", default="", help="only cases whose key holds this text")
    draw.set_defaults(run_command=_render)

    together = commands.add_parser("compare", help="draw runs and machine descriptions beside each other")
    together.add_argument(
        "sources", metavar="SOURCE", nargs="+", type=Path, help="a run, a machine.json, or a folder of descriptions"
    )
    together.add_argument("--figure", metavar="NAME", nargs="+", action="extend", default=[], help="only these")
    together.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("comparison"), help="where to (default comparison)"
    )
    together.add_argument("--format", metavar="LIST", default="png,svg", help="png, svg or both (default png,svg)")
    together.set_defaults(run_command=_compare)

    predicted = commands.add_parser("predicted", help="how far off the model was: a measured run and one of the model")
    predicted.add_argument("run", metavar="RUN", type=Path, help="a directory that an overlap bench wrote")
    predicted.add_argument(
        "model_run", metavar="MODEL_RUN", type=Path, help="one of the same cases, by --backend model"
    )
    predicted.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("prediction"), help="where to (default prediction)"
    )
    predicted.add_argument("--format", metavar="LIST", default="png,svg", help="png, svg or both (default png,svg)")
    predicted.set_defaults(run_command=_predicted)

    lab = commands.add_parser("lab", help="write a page to try overlap, buckets and queues in, from a run's numbers")
    lab.add_argument(
        "run", metavar="RUN", nargs="?", type=Path, help="whose numbers it starts from (default: examples)"
    )
    lab.add_argument("-o", "--out", metavar="FILE", type=Path, default=Path("lab.html"), help="default lab.html")
    lab.set_defaults(run_command=_lab)

    report = commands.add_parser("report", help="write all that is known of one or more runs as one page")
    report.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a directory that an overlap bench wrote")
    report.add_argument(
        "-o", "--out", metavar="FILE", type=Path, default=Path("report.html"), help="default report.html"
    )
    report.set_defaults(run_command=_report)

    together = commands.add_parser(
        "schemes", help="compare training schemes: what each leaves exposed and what it costs"
    )
    together.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="runs of overlap-ddp, overlap-fsdp ...")
    together.add_argument(
        "--peak",
        metavar="RATE",
        default="",
        help="dense peak of a device, such as 989TFLOP/s (default: the best GEMM rate measured in these runs)",
    )
    together.add_argument("--peak-name", metavar="NAME", default="", help="whose peak that is")
    together.add_argument("--format", metavar="FORMAT", default="text", help="text or csv (default text)")
    together.set_defaults(run_command=_schemes)

    listing = commands.add_parser("list", help="list the figures")
    listing.set_defaults(run_command=_list)

    check = commands.add_parser(
        "check", help="check that a run directory is sound and its summary follows from its samples"
    )
    check.add_argument("run", metavar="RUN", type=Path)
    check.set_defaults(run_command=_check)
    return parser


def _render(options: argparse.Namespace) -> int:
    formats = _formats(options.format)
    asked = [name for text in options.figure for name in text.split(",")]
    figures = {name: _figure(name) for name in asked or registry.figure_names()}
    runs = [load_run(directory) for directory in options.runs]
    folders = _folders(runs, options.out)
    failed = False
    for run, out in zip(runs, folders, strict=True):
        if options.case and not any(options.case in key for key in run.tables["summary"].frame["key"]):
            raise RunError(
                f'no case of {run.directory} holds "{options.case}"; the keys are in its summary.csv', status=2
            )
        of_others: list[str] = []  # figures of other benches' columns: one line, unless they were asked for
        for name, figure in figures.items():
            why = registry.missing(figure, run)
            if why and not asked:
                of_others.append(name)
                continue
            try:
                if why:
                    raise Absent(why)
                pages = figure.pages(run, options.case)
                for note in dict.fromkeys(note for page in pages for note in page.notes):
                    _say(f"overlap-plots: {name} of {run.name}: {note}", file=sys.stderr)
                for path in save_pages(name, figure, pages, run, out, formats):
                    _say(path)
            except Absent as absent:
                _say(f"overlap-plots: {name} of {run.name} is not drawn: {absent}", file=sys.stderr)
                failed = failed or bool(asked)
        if of_others:
            _say(f"overlap-plots: {run.name} has not the columns of {', '.join(of_others)}", file=sys.stderr)
    return 1 if failed else 0


def _compare(options: argparse.Namespace) -> int:
    formats = _formats(options.format)
    asked = [name for text in options.figure for name in text.split(",")]
    fabrics = [fabric for source in options.sources for fabric in load_fabric(source)]
    without = [fabric.name for fabric in fabrics if not fabric.series]
    if without:
        said = (
            f"no series of a collective in {', '.join(without)}; compare runs of overlap-collective or overlap-import"
        )
        if len(without) == len(fabrics):
            raise RunError(said, status=2)
        _say(f"overlap-plots: {said}", file=sys.stderr)
    origins = [fabric.origin for fabric in fabrics]
    few = origins if len(origins) <= _MOST_ORIGINS else [f"{len(origins)} runs and machine descriptions"]
    failed = False
    for name in asked or registry.figure_names():
        figure = _figure(name)
        if not isinstance(figure, registry.Overview):
            if asked:
                raise RunError(f"{name} is of one run; type overlap-plots render RUN --figure {name}", status=2)
            continue
        try:
            pages = figure.pages_of(fabrics)
            for note in dict.fromkeys(note for page in pages for note in page.notes):
                _say(f"overlap-plots: {name}: {note}", file=sys.stderr)
            for path in save_pages(name, figure, pages, Together(tuple(few)), options.out, formats):
                _say(path)
        except Absent as absent:
            _say(f"overlap-plots: {name} is not drawn: {absent}", file=sys.stderr)
            failed = failed or bool(asked)
    return 1 if failed else 0


def _predicted(options: argparse.Namespace) -> int:
    formats = _formats(options.format)
    measured, model = load_run(options.run), load_run(options.model_run)
    for run in (measured, model):
        if options.out.resolve().is_relative_to(run.directory.resolve()):
            raise RunError(f"--out {options.out} lies in the run {run.name}; name a folder of its own", status=2)
    joined = cases.join(measured, model)
    _say(table.text(cases.errors(joined.frame)) + "\n")
    left_out = table.left_out(joined)
    for line in left_out[:_MOST_PROBLEMS]:
        _say(f"overlap-plots: {line}", file=sys.stderr)
    if len(left_out) > _MOST_PROBLEMS:
        _say(f"overlap-plots: and {len(left_out) - _MOST_PROBLEMS} more, in predicted.csv", file=sys.stderr)
    table.write(joined, options.out / "predicted.csv")
    _say(options.out / "predicted.csv")
    try:
        page = prediction_figure.page(joined, style.units_of(measured.tables["summary"].frame, seconds="t_step"))
        origin = Together((f"measured: {measured.origin}", f"model: {model.origin}"))
        for path in save_pages("predicted", prediction_figure, [page], origin, options.out, formats):
            _say(path)
    except Absent as absent:
        _say(f"overlap-plots: predicted is not drawn: {absent}", file=sys.stderr)
    return 0


def _figure(name: str) -> registry.Figure:
    try:
        return registry.get_figure(name)
    except RunError as error:
        if Path(name).is_dir():
            raise RunError(f"{name} is a directory, not a figure; write runs before --figure", status=2) from error
        raise


def _formats(text: str) -> list[str]:
    formats = text.split(",")
    for kind in formats:
        if kind not in FORMATS:
            raise RunError(f'--format "{kind}" is not known; type png, svg or png,svg', status=2)
    return formats


def _folders(runs: Sequence[Run], out: Path | None) -> list[Path]:
    if out is None:
        for run in runs:
            if (run.directory / "plots").is_symlink():
                raise RunError(
                    f"{run.directory / 'plots'} is a link, which may lead anywhere; name a folder with --out"
                )
        return [run.directory / "plots" for run in runs]
    if len(runs) == 1:
        return [out]
    folders = [out / run.name for run in runs]
    if len(set(folders)) < len(folders):
        raise RunError("two runs have one name, so --out would mix their pictures; render them one by one", status=2)
    return folders


def _lab(options: argparse.Namespace) -> int:
    return _write_page(lab_page(load_run(options.run) if options.run else None), options.out)


def _report(options: argparse.Namespace) -> int:
    beside = "lab.html" if (options.out.parent / "lab.html").is_file() else None
    return _write_page(report_page([load_run(directory) for directory in options.runs], beside), options.out)


def _write_page(page: str, out: Path) -> int:
    _require_page(out)
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {out} ({error.strerror}); name another file with -o") from error
    _say(out)
    return 0


def _require_page(out: Path) -> None:
    """Nothing is written over but a page: a slip must not cost the samples that it was to show."""
    if out.is_dir():
        raise RunError(f"-o {out} is a directory; name a file, such as {out / 'report.html'}", status=2)
    try:
        with out.open("rb") as file:
            begins = file.read(64)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"cannot read what is at {out} ({error.strerror}); name another file with -o") from error
    if begins and not begins.lstrip().lower().startswith(b"<!doctype html"):
        raise RunError(f"{out} is there already and is no HTML page; name another file with -o", status=2)


def _schemes(options: argparse.Namespace) -> int:
    if options.format not in ("text", "csv"):
        raise RunError(f'--format "{options.format}" is not known; type text or csv', status=2)
    given = schemes.parse_peak(options.peak, options.peak_name) if options.peak else None
    found, said = schemes.lines([load_run(directory) for directory in options.runs], given)
    if options.format == "text":
        _say(schemes.text(found, said))
        return 0
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(schemes.HEADINGS)
    writer.writerows([style.plain(cell) for cell in schemes.cells(line)] for line in found)
    return 0


def _list(_: argparse.Namespace) -> int:
    for name in registry.figure_names():
        _say(f"{name:<22}{registry.get_figure(name).DESCRIPTION}")
    return 0


def _check(options: argparse.Namespace) -> int:
    said, problems = check_run(options.run)
    for line in said:
        _say(line)
    for problem in problems[:_MOST_PROBLEMS]:
        _say(problem)
    if len(problems) > _MOST_PROBLEMS:
        _say(f"… and {len(problems) - _MOST_PROBLEMS} more")
    found = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    _say(f"{options.run}: {found if problems else 'sound'}")
    return 1 if problems else 0
