# SPDX-License-Identifier: Apache-2.0
"""The arithmetic, on numbers that a reader can check by hand."""

import math

import pandas as pd
import pytest

from overlap_plots import derive


def test_the_algebra_of_one_worked_case() -> None:
    # 10 ms of compute and 8 ms of communication take 11 ms together: 7 of the 8 are hidden, 1 is exposed.
    times = pd.DataFrame({"t_compute": [10.0], "t_comm": [8.0], "t_serial": [18.5], "t_step": [11.0]})
    row = derive.overlap_algebra(times).iloc[0]
    assert row["t_ideal"] == 10
    assert row["speedup_bound"] == 1.8
    assert row["t_overlap"] == 7
    assert row["t_exposed"] == 1
    assert row["hidden_share"] == 7 / 8
    assert row["hidden_fraction"] == 7 / 8
    assert row["speedup"] == 18 / 11
    assert row["speedup_measured"] == 18.5 / 11
    assert row["serial_gap"] == 0.5


def test_worse_than_serial_is_negative_and_not_clamped() -> None:
    times = pd.DataFrame({"t_compute": [10.0], "t_comm": [10.0], "t_serial": [20.0], "t_step": [25.0]})
    assert derive.overlap_algebra(times)["hidden_share"][0] == -0.5


def sample(arm: str, round_: int, step: float, rank: int = 0, used: int = 1, repeats: int = 2) -> dict[str, object]:
    return {
        "key": "k",
        "launch": 0.0,
        "round": round_,
        "slot": round_,
        "arm": arm,
        "rank": rank,
        "repeats": repeats,
        "step": step,
        "used": used,
    }


def test_medians_count_a_replay_once_skip_spoilt_rounds_and_divide_by_repeats() -> None:
    samples = pd.DataFrame(
        [
            sample("compute", 0, 4, rank=0),
            sample("compute", 0, 4, rank=1),  # the same replay
            sample("compute", 1, 8),
            sample("compute", 2, 100, used=0),
            sample("empty", 0, 1),
        ]
    )
    medians = derive.arm_medians(samples).loc[("k", 0.0)]
    assert medians["t_compute"] == 3  # median of 4 and 8 is 6, of two repeats each
    assert medians["t_empty"] == 1  # of the window: there are no operations
    assert math.isnan(medians["t_comm"])  # unknown, never zero
    assert medians["rounds"] == 2


def test_the_interval_of_a_median_by_order_statistics() -> None:
    assert derive.median_interval([3, 1, 6, 2, 5, 4]) == (1, 6)  # 1 - 2/64 = 0.969
    assert derive.median_interval(range(1, 10)) == (2, 8)  # 1 - 2 (1 + 9)/512 = 0.961
    assert all(math.isnan(end) for end in derive.median_interval([1, 2, 3, 4, 5]))  # 1 - 2/32 is under 0.95


def test_stretch_intervals_pair_the_rounds_and_take_the_slowest_rank() -> None:
    rows = [
        {**sample(arm, r, 0, rank), "compute_span": span * (1 + r) * (1 - rank / 2), "comm_span": math.nan}
        for r in range(6)
        for arm, span in (("compute", 10), ("overlapped", 12))
        for rank in (0, 1)
    ]
    interval = derive.stretch_intervals(pd.DataFrame(rows)).loc[("k", 0.0)]
    # Times drift by six from first to last round, the ratio within a round does not.
    assert interval["compute_stretch_low"] == pytest.approx(1.2)
    assert interval["compute_stretch_high"] == pytest.approx(1.2)
    assert math.isnan(interval["comm_stretch_low"])


def test_exposed_is_communication_without_compute() -> None:
    assert derive.subtract([(1, 5)], [(0, 2), (3, 4)]) == [(2, 3), (4, 5)]
    assert derive.subtract([(1, 2), (1, 3)], []) == [(1, 3)]
    assert derive.subtract([(1, 2)], [(0, 3)]) == []


def test_the_typical_replay_is_the_middle_one() -> None:
    operations = pd.DataFrame({"arm": "overlapped", "replay": [0, 1, 2], "end": [9.0, 5.0, 7.0]})
    assert derive.typical_replay(operations)["replay"].tolist() == [2]


def cases(**columns: list[object]) -> pd.DataFrame:
    count = len(next(iter(columns.values())))
    keys = [f"key {i}" for i in range(count)]
    return pd.DataFrame({"key": keys, "source": "measured", "placement": "concurrent", **columns})


def test_a_case_is_named_by_what_varies() -> None:
    frame = cases(placement=["serial", "graph"], gemm=["a", "a"], bytes=[1024.0, 25 * 2.0**20])
    assert derive.case_names(frame) == ["serial · 1 KiB", "graph · 25 MiB"]
    assert derive.shared_axes(frame) == "a"


def test_a_transports_own_progress_is_not_worth_a_word() -> None:
    frame = pd.DataFrame(
        {
            "key": ["a", "b", "c"],
            "placement": ["serial"] * 3,
            "transport": ["shm", "mpi-openmpi", "mpi-openmpi"],
            "progress": ["auto", "none", "poll:100us"],
            "source": ["measured"] * 3,
        }
    )
    assert derive.case_names(frame) == ["shm", "mpi-openmpi · progress none", "mpi-openmpi · progress poll:100us"]
    assert derive.series_names(frame)[0] == "serial · shm"


def test_cases_that_no_axis_tells_apart_are_named_by_the_words_that_their_keys_do_not_share() -> None:
    assert derive.case_names(cases(gemm=["a", "a"])) == ["concurrent · 0", "concurrent · 1"]


def test_what_was_not_measured_is_said_in_the_name() -> None:
    frame = cases(source=["measured", "model"], bytes=[1024.0, 2048.0])
    assert derive.case_names(frame) == ["1 KiB", "2 KiB (model)"]
    assert derive.series_names(frame) == ["concurrent", "concurrent (model)"]


def test_choosing_takes_the_best_balanced_of_each_placement_and_says_what_it_left_out() -> None:
    frame = cases(placement=["a", "a", "a", "b"], t_compute=[1.0, 1.0, 1.0, 1.0], t_comm=[9.0, 1.1, 0.5, 5.0])
    assert derive.choose(frame, 2).index.tolist() == [1, 3]
    assert derive.choose(frame, 4) is frame
    assert "shows 2 of 4 cases" in derive.chosen_note(2, 4)
    assert derive.chosen_note(4, 4) == ""


def test_the_case_filter_is_literal_text() -> None:
    frame = cases(key=["a.b", "axb", "$[a"])
    assert derive.matching(frame, "a.b")["key"].tolist() == ["a.b"]
    assert derive.matching(frame, "$[")["key"].tolist() == ["$[a"]


def test_files_of_a_case_are_named_by_its_values_and_the_hash_of_its_key() -> None:
    # As tests/results/timeline_test.cpp expects of timeline/.
    assert derive.file_name("pair gemm=64x64 bytes=1KiB") == "pair-64x64-1KiB-675c16c534d689e1"
    assert derive.file_name("a/b") != derive.file_name("a:b")
    assert derive.file_name("a", 2).endswith("-launch2")
    assert len(derive.file_name("x" * 300)) < 120


def test_little_to_hide_is_under_a_twentieth_of_the_step() -> None:
    frame = pd.DataFrame(
        {"t_compute": [100.0, 100.0, 4.9, math.nan], "t_comm": [4.0, 6.0, 100.0, 1.0], "t_step": 100.0}
    )
    assert derive.little_to_hide(frame).tolist() == [True, False, True, False]


def test_close_spans_are_one() -> None:
    assert derive.union([(0, 1), (1.5, 2), (3, 4)], gap=0.5) == [(0, 2), (3, 4)]


def test_one_channel_is_no_plural() -> None:
    frame = cases(channels_asked=[1.0, 2.0], ranks=[2.0, 1.0])
    assert derive.case_names(frame) == ["2 ranks · 1 channel", "1 rank · 2 channels"]


def test_a_stretch_is_the_median_of_the_paired_rounds() -> None:
    # 1.5, 1.6 ... 2.1 times as long: 1.8, where the ratio of two medians could be another number.
    rows = []
    for round_ in range(7):
        for arm, span in (("compute", 1.0 + round_), ("overlapped", (1.0 + round_) * (1.5 + 0.1 * round_))):
            rows.append(sample(arm, round_, 9.0) | {"compute_span": span, "comm_span": math.nan})
    found = derive.stretches(pd.DataFrame(rows)).loc[("k", 0.0)]
    assert [found[f"compute_stretch{end}"] for end in ("", "_low", "_high")] == pytest.approx([1.8, 1.5, 2.1])
    assert math.isnan(found["comm_stretch"])


def test_cases_that_only_their_keys_tell_apart_are_named_by_the_words_that_differ() -> None:
    frame = pd.DataFrame(
        {
            "key": ["pp schedule=a c=1", "pp schedule=b c=1", "pp schedule=b c=2"],
            "placement": "concurrent",
            "source": ["measured", "model", "measured"],
        }
    )
    assert derive.case_names(frame) == [
        "concurrent · schedule=a c=1",
        "concurrent (model)",
        "concurrent · schedule=b c=2",
    ]
    assert derive.differing_words([]) == []
