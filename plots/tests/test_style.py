# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import matplotlib
from matplotlib.figure import Figure as Paper

from overlap_plots import style


def test_numbers_carry_their_unit() -> None:
    assert style.iec(25 * 2**20) == "25 MiB"
    assert style.iec(2e6) == "1.907 MiB"
    assert style.iec(3) == "3 B"
    assert style.si_interval(0.02506, 0.02501, 0.02512, "s") == "25.06 ms [25.01, 25.12]"
    assert style.si_interval(1e-6, math.nan, 2e-6, "s") == "1.000 µs"
    assert style.si_interval(0, -2e-5, 3e-5, "s") == "0.000 µs [−20.00, 30.00]"  # in the unit of what it lies between
    assert style.si(0.0009999999, "s") == "1.00 ms"
    assert style.percent(-0.5) == "−50 %"
    assert style.percent(math.nan) == "unknown"


def test_text_is_one_legal_line() -> None:
    assert style.plain("a\nb\x00c") == "a�b�c"
    assert style.plain("$x$ <&> Größe 漢") == "$x$ <&> Größe 漢"
    assert style.shorten("abcdefghij", 5) == "ab…ij"
    assert style.shorten("abc", 5) == "abc"


def test_series_differ_in_more_than_colour() -> None:
    looks = list(itertools.islice(style.series_styles(), 56))
    assert len({(look.color, look.marker) for look in looks}) == 56
    assert len({look.marker for look in looks[:7]}) == 7


def test_the_style_is_undone_and_dollars_are_text() -> None:
    with style.context():
        inner = matplotlib.rcParams["font.size"]
        assert matplotlib.rcParams["text.parse_math"] is False
        matplotlib.rcParams["font.size"] = inner + 1
    assert matplotlib.rcParams["font.size"] == inner  # the fixture's own context is whole again


def test_names_break_between_their_parts() -> None:
    assert style.in_lines("a · b", 9) == "a · b"
    assert style.in_lines("matrix · gemm · stream", 13) == "matrix · gemm\nstream"
    assert max(len(line) for line in style.in_lines("x" * 99 + " · y", 10).splitlines()) <= 10


def test_a_short_logarithmic_axis_has_ticks_too() -> None:
    axes = Paper().subplots()
    style.log10_axis(axes, "x", "bandwidth", "B/s", [4.6e9, 5.5e9])
    low, high = axes.get_xlim()
    ticks = axes.get_xticks()
    assert len(ticks) >= 3
    assert all(low <= tick <= high for tick in ticks)


def test_an_axis_keeps_its_data_in_the_schema_s_unit() -> None:
    axes = Paper().subplots()
    axes.plot([0.001, 0.025], [1, 2])
    style.scale_axis(axes.xaxis, "time", "s", 0.025)
    assert axes.get_xlabel() == "time (ms)"
    assert axes.xaxis.get_major_formatter()(0.025) == "25"
