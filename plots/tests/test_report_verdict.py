# SPDX-License-Identifier: Apache-2.0
"""Each kind of sentence from rows whose numbers can be checked by hand, and no sentence where something is missing."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic
import synthetic_collective
import synthetic_contention
import synthetic_schedules

from overlap_plots.load import load_run
from overlap_plots.report.verdict import Sentence, over_launches, verdict

Tables = dict[str, pd.DataFrame]
MS = 1e-3
SLOWED = "compute takes 1.05 [1.05, 1.05] and communication 1.25 [1.25, 1.25] times as long as alone"


def tables_of(directory: Path) -> Tables:
    return {name: table.frame for name, table in load_run(directory).tables.items()}


def of_cases(folder: Path, *cases: synthetic.Case) -> Tables:
    return tables_of(synthetic.build(folder / "run", cases, operations=False))


def texts(said: list[Sentence]) -> list[str]:
    return [sentence.text for sentence in said]


def with_numbers(frame: pd.DataFrame, row: int, **numbers: float) -> None:
    for name, value in numbers.items():
        frame.loc[row, name] = value


# ---- a case ----------------------------------------------------------------------------------------------------------


def test_what_hides_what_stays_and_why(tmp_path: Path) -> None:
    # 10 and 8 ms in 11: 7 of 8 hide. The spans within are 11 / 10 / 1.05 and 11 / 8 / 1.1 of those alone.
    case = synthetic.Case()
    (said,) = verdict(of_cases(tmp_path, case), rounds_asked=7)
    assert said == Sentence(
        about="concurrent",
        text="of 8.000 ms [7.980, 8.020] of communication 7.00 ms hides and 1.000 ms [0.9800, 1.020] stays exposed; "
        f"hidden share 88 % [86, 90]; each slows the other: {SLOWED}",
        row=(case.key, 0),
        labels=(),
    )


def test_longer_communication_can_only_hide_behind_what_compute_there_is(tmp_path: Path) -> None:
    (said,) = texts(verdict(of_cases(tmp_path, synthetic.Case(times=(10, 20, 30, 20)))))
    assert said == (
        "of 20.00 ms [19.98, 20.02] of communication at most 10.00 ms [9.980, 10.02] can hide, 10.0 ms does and "
        "10.00 ms [9.980, 10.02] stays exposed; hidden share 100 % [98, 102], near the bound"  # and so no cause
    )


def test_few_rounds_and_noise_are_said(tmp_path: Path) -> None:
    (said,) = verdict(of_cases(tmp_path, synthetic.Case(status="noisy")), rounds_asked=20)
    assert said.text.endswith(" (only n = 7 of the 20 rounds asked for)")
    assert said.labels == ("noisy",)


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("model", "model, not measured"),
        ("proxy", "proxy, not measured"),
        ("emulated", "emulated, not measured"),
        ("imported", "imported"),
        ("", "unknown source, not measured"),
    ],
)
def test_what_was_not_measured_here_is_labelled(tmp_path: Path, source: str, label: str) -> None:
    (said,) = verdict(of_cases(tmp_path, synthetic.Case(source=source)), rounds_asked=20)
    assert said.labels == (label,)
    assert ("only n" in said.text) == (source != "model")  # a model's rounds are all alike


def test_one_lane_is_a_control(tmp_path: Path) -> None:
    (said,) = texts(verdict(of_cases(tmp_path, synthetic.Case("graph+serial", (10, 10, 20, 20)))))
    assert said == "one after the other on one lane, so nothing can hide; as a control, hidden share 0 % [−2, 2]"


def test_worse_than_serial(tmp_path: Path) -> None:
    (said,) = texts(verdict(of_cases(tmp_path, synthetic.Case(times=(10, 10, 20, 25)))))
    assert said.startswith(
        "worse than serial: both at once take 25.00 ms [24.98, 25.02], longer than compute (10.00 ms [9.980, 10.02]) "
        "and communication (10.00 ms [9.980, 10.02]) one after the other; hidden share −50 % [−52, −48]; each slows"
    )


def test_an_interval_over_zero_claims_no_overlap(tmp_path: Path) -> None:
    wide = {"hidden_share_low": -0.1}
    (said,) = texts(verdict(of_cases(tmp_path, synthetic.Case(times=(10, 10, 20, 19.9), more=wide))))
    assert said.startswith(
        "no overlap is measurable: of 10.00 ms [9.980, 10.02] of communication 9.900 ms [9.880, 9.920] stays exposed; "
        "hidden share 1 % [−10, 3]; "
    )


def test_an_exposed_time_that_may_be_none_is_no_claim(tmp_path: Path) -> None:
    (said,) = texts(verdict(of_cases(tmp_path, synthetic.Case(times=(10, 8, 18, 10.01)))))
    assert "and 10.00 µs [−10.00, 30.00] stays exposed, not measurably above 0; hidden share 100 % [98, 102]" in said
    (said,) = texts(verdict(of_cases(tmp_path / "less", synthetic.Case(times=(10, 8, 18, 9.9)))))
    assert said == (
        "all of 8.000 ms [7.980, 8.020] of communication hides: the step is not longer than compute alone "
        "(exposed −100.0 µs [−120.0, −80.00]); hidden share 101 % [99, 103], near the bound"
    )


def test_little_to_hide(tmp_path: Path) -> None:
    (said,) = texts(verdict(of_cases(tmp_path, synthetic.Case(times=(10, 0.4, 10.4, 10.4)))))
    assert said == (
        "little to hide: communication alone takes 400.0 µs [380.0, 420.0] of a step of 10.40 ms [10.38, 10.42]"
    )


@pytest.mark.parametrize("missing", ["t_comm", "t_comm_low", "t_compute_high", "t_step", "hidden_share_low"])
def test_no_sentence_without_a_number_or_its_interval(tmp_path: Path, missing: str) -> None:
    assert verdict(of_cases(tmp_path, synthetic.Case(more={missing: ""}))) == []


def test_without_the_exposed_time_only_the_share_is_told(tmp_path: Path) -> None:
    (said,) = texts(verdict(of_cases(tmp_path, synthetic.Case(more={"t_exposed_low": ""}))))
    assert said.startswith("of 8.000 ms [7.980, 8.020] of communication a part hides; hidden share 88 % [86, 90]; ")


def test_cases_without_numbers_say_nothing(tmp_path: Path) -> None:
    assert verdict(of_cases(tmp_path, synthetic.Case(status="unsupported"))) == []


def test_who_is_slowed_follows_the_intervals(tmp_path: Path) -> None:
    tables = of_cases(tmp_path, synthetic.Case())

    def cause(compute: float, comm: float) -> str:
        samples = tables["samples"].copy()
        alone = samples["arm"] != "overlapped"
        for column, longer in (("compute_span", compute), ("comm_span", comm)):
            samples[column] = np.where(alone, 1.0, longer) * (1 + 0.001 * samples["round"])
        (said,) = texts(verdict(tables | {"samples": samples}))
        return said.split("; ")[2]

    assert cause(1.5, 1) == "communication slows compute, which takes 1.50 [1.50, 1.50] times as long as alone"
    assert cause(1, 2) == "compute slows communication, which takes 2.00 [2.00, 2.00] times as long as alone"
    assert cause(1.5, 2).startswith("each slows the other: compute takes 1.50 [1.50, 1.50] and communication 2.00")
    assert cause(1, 0.9) == (
        "neither side is measurably slower than alone (compute 1.00 [1.00, 1.00], communication 0.90 [0.90, 0.90] "
        "times), so order, launch or waiting costs the rest"
    )


def test_no_cause_without_samples_or_rounds_or_where_spans_hold_gaps(tmp_path: Path) -> None:
    tables = of_cases(tmp_path, synthetic.Case())
    few = tables["samples"][tables["samples"]["round"] < 5]  # of five rounds a median has no 95 % interval
    for changed in (
        {"samples": tables["samples"].iloc[:0]},
        {"samples": few},
        {"summary": tables["summary"].assign(bench="ddp")},
    ):
        (said,) = texts(verdict(tables | changed))
        assert said.endswith("hidden share 88 % [86, 90]")
    del tables["samples"]
    assert texts(verdict(tables)) == [said]


def test_of_many_cases_the_best_balanced_are_told(tmp_path: Path) -> None:
    cases = [synthetic.Case(times=(10, 1 + n, 11 + n, 11), bytes=1 << (10 + n)) for n in range(10)]
    said = verdict(of_cases(tmp_path, *cases))
    assert [sentence.about for sentence in said] == [f"{4 << n} KiB" for n in range(8)]  # 4 KiB: 3 ms beside 10


# ---- cases beside each other -----------------------------------------------------------------------------------------


def test_the_best_setting_is_named_where_the_intervals_tell(tmp_path: Path) -> None:
    best = synthetic.Case("partitioned", (10, 10, 20, 12))  # 0.8
    next_ = synthetic.Case("shared_core", (10, 10, 20, 15))  # 0.5
    last = synthetic.Case("concurrent", (10, 10, 20, 19))  # 0.1
    control = synthetic.Case("serial", (10, 10, 20, 20))
    (said,) = [
        s for s in verdict(of_cases(tmp_path, last, best, next_, control), 7) if s.about.startswith("placement, ")
    ]
    assert said.text == (
        "best here is partitioned placement (hidden share 80 % [78, 82]), "
        "next shared_core placement (hidden share 50 % [48, 52])"
    )
    assert said.row == (best.key, 0)


def test_settings_that_the_intervals_do_not_tell_apart_are_not_ranked(tmp_path: Path) -> None:
    cases = [
        synthetic.Case("partitioned", (10, 10, 20, 12), status="noisy"),
        synthetic.Case("concurrent", (10, 10, 20, 12.3)),
        synthetic.Case("shared_core", (10, 10, 20, 15)),
    ]
    (said,) = [s for s in verdict(of_cases(tmp_path, *cases), 20) if s.about.startswith("placement, ")]
    assert said.text == (
        "not measurably apart: partitioned placement (hidden share 80 % [78, 82]), "
        "concurrent placement (hidden share 77 % [75, 79]) (only n = 7 of the 20 rounds asked for)"
    )
    assert said.labels == ("noisy",)


def test_only_cases_alike_in_all_else_are_compared(tmp_path: Path) -> None:
    cases = [
        synthetic.Case("partitioned", (10, 10, 20, 12)),
        synthetic.Case("concurrent", (10, 10, 20, 15), bytes=4 << 20),
        synthetic.Case("shared_core", (10, 10, 20, 15), source="model"),
    ]
    assert not [s for s in verdict(of_cases(tmp_path, *cases)) if s.about.startswith("placement, ")]


def test_channels_of_nccl_are_named_as_its_setting(tmp_path: Path) -> None:
    tables = of_cases(tmp_path, synthetic.Case(times=(10, 10, 20, 12)), synthetic.Case("graph", (10, 10, 20, 15)))
    tables["summary"] = tables["summary"].assign(
        placement="concurrent", transport="nccl", channels_asked=[8.0, 0.0], key=["pair channels=8", "pair channels=0"]
    )
    (said,) = [s for s in verdict(tables) if s.about.startswith("channels, ")]
    assert said.text == (
        "best here is NCCL_MAX_CTAS=8 (hidden share 80 % [78, 82]), "
        "next the library's choice of channels (hidden share 50 % [48, 52])"
    )


def test_the_medians_of_launches_take_the_place_of_one(tmp_path: Path) -> None:
    tables = of_cases(tmp_path, synthetic.Case(), synthetic.Case(launch=1, status="noisy"))
    key = tables["summary"]["key"].iloc[0]
    joint = {"key": key, "launches": 2.0}
    for name, value in (("t_compute", 10.0), ("t_comm", 9.0), ("t_step", 12.0)):
        joint |= {name: value * MS, f"{name}_low": value * MS, f"{name}_high": value * MS}
    joint |= {"hidden_share": 0.8, "hidden_share_low": 0.5, "hidden_share_high": 0.85}
    launches = pd.DataFrame([joint])
    (said,) = verdict(tables | {"launches": launches}, rounds_asked=20)
    assert said.text == (
        "of 9.000 ms [9.000, 9.000] of communication a part hides; hidden share 80 % [50, 85] (median of 2 launches)"
    )
    assert said.labels == ("noisy",)
    row = over_launches(tables["summary"], launches).iloc[0]
    assert np.isnan(row["t_serial"])  # launches.csv does not have it
    assert over_launches(tables["summary"], launches.assign(launches=1.0))["t_comm"].tolist() == [0.008, 0.008]


# ---- schedules, contention, collectives, ordering --------------------------------------------------------------------


def ddp(folder: Path, **choice: Any) -> Tables:
    tables = tables_of(synthetic_schedules.build(folder / "ddp", "ddp"))
    with_numbers(tables["choices"], 0, values=4, t_exposed=1e-3, t_exposed_low=0.9e-3, t_exposed_high=1.1e-3)
    tables["choices"] = tables["choices"].assign(**choice)
    return tables


def test_the_bucket_that_exposes_least(tmp_path: Path) -> None:
    gain = {"reference": "25MiB", "gain": 1.2e-3, "gain_low": 1.0e-3, "gain_high": 1.4e-3}
    (said,) = verdict(ddp(tmp_path, **gain), rounds_asked=30)
    assert said == Sentence(
        about="bucket, gpt2-small:4@128 shm",
        text="1MiB buckets expose least of the 4 tried: 1.000 ms [0.9000, 1.100]; the best lies from 1MiB to 25MiB "
        "(95 %); 25MiB buckets: 1.200 ms [1.000, 1.400] more (only n = 20 of the 30 rounds asked for)",
        row=("ddp bucket=1MiB c=1", 0),
        labels=(),
    )


def test_a_gain_that_is_not_measurable_is_not_claimed(tmp_path: Path) -> None:
    gain = {"reference": "25MiB", "gain": 0.1e-3, "gain_low": -1.0e-3, "gain_high": 1.4e-3}
    unclear = {"recommended": "tensor", "verdict": "unclear: any of them may expose least; measure longer"}
    (said,) = texts(verdict(ddp(tmp_path, **gain, **unclear)))
    assert said.startswith("unclear: 1MiB buckets expose least of the 4 tried: ")
    assert said.endswith(
        "; tensor buckets not measurably more; 25MiB buckets: 100.0 µs [−1000, 1400] more, which is not measurable"
    )


def test_no_choice_without_an_interval_or_without_its_row(tmp_path: Path) -> None:
    assert verdict(ddp(tmp_path, t_exposed_low=np.nan)) == []
    assert verdict(ddp(tmp_path / "other", best="3MiB")) == []


def test_who_is_slowed_most_and_the_knee_of_the_channels(tmp_path: Path) -> None:
    tables = tables_of(synthetic_contention.build(tmp_path / "run"))
    said = verdict(tables)
    assert [(s.about, s.text) for s in said][:4] == [
        (
            "slowed most, study matrix",
            "elementwise:64MiB takes 1.80 [1.78, 1.82] times as long beside stream:max@64MiB (partitioned)",
        ),
        (
            "slowed most, study load_curve",
            "elementwise:64MiB takes 2.00 [1.98, 2.02] times as long beside stream:8000000000.0 (partitioned)",
        ),
        (
            "slowed most, study sm_budget",
            "gemm:512x512x512 takes 2.00 [1.98, 2.02] times as long beside all_reduce:16MiB (partitioned)",
        ),
        (
            "knee of gemm:512x512x512 beside all_reduce:16MiB",
            "2 channels: the GEMM takes 1.10 [1.09, 1.11] times as long, the bus gives 18.0 GB/s",
        ),
    ]
    tables["summary"][["victim_slowdown_low", "lost_low"]] = 0.99, -1.0
    assert not [s for s in verdict(tables) if s.about.startswith(("slowed", "lost"))]  # the intervals do not tell
    tables["summary"]["victim_slowdown_low"] = np.nan
    assert verdict(tables) == []


def test_what_the_step_lost_and_to_whom(tmp_path: Path) -> None:
    tables = tables_of(synthetic_contention.build(tmp_path / "run"))
    summary = tables["summary"]
    (said,) = [s for s in verdict(tables) if s.about.startswith("lost most: ")]
    assert said.text == "the step is 4.000 ms [3.000, 5.000] longer than its longer part alone; no instrument saw where"
    with_numbers(summary, 2, lost_low=3.5e-3, lost_compute_slowdown_low=2.5e-3, lost_compute_slowdown_high=3.5e-3)
    (said,) = [s for s in verdict(tables) if s.about.startswith("lost most: ")]
    assert said.row == (summary["key"].iloc[2], 0)
    assert said.text == (
        "the step is 4.000 ms [3.500, 5.000] longer than its longer part alone; "
        "3.000 ms [2.500, 3.500] of it is compute, slowed by what runs beside it"
    )


def test_latency_and_bandwidth_of_a_collective(tmp_path: Path) -> None:
    tables = tables_of(synthetic_collective.build(tmp_path / "run"))
    fits = tables["fits"]
    (idle, loaded) = [s for s in verdict(tables) if "latency" in s.text]
    # 20 us and 1e-11 s a byte, ± a tenth; of two ranks bus and algorithm bandwidth are one.
    assert idle.about == "all_reduce f32 2 ranks"
    beta = fits[fits["chosen"] == 1].iloc[0]
    ends = [1 / beta["beta_s_per_byte_high"] / 1e9, 1 / beta["beta_s_per_byte_low"] / 1e9]
    assert idle.text == (
        f"latency 20.00 µs [18.00, 22.00], bus bandwidth 100.0 GB/s [{ends[0]:.2f}, {ends[1]:.1f}] (5 launches)"
    )
    assert loaded.about == "all_reduce f32 2 ranks beside GEMMs"
    tables["fits"] = fits.assign(
        verdict="poor: half of the sizes are off by more than 8 %; launches agree", ranks=np.nan
    )
    (idle, _) = [s for s in verdict(tables) if "latency" in s.text]
    assert ", algorithm bandwidth 100.0 GB/s" in idle.text  # of unknown ranks the bus bandwidth is not known
    assert idle.text.endswith("; the line is poor: half of the sizes are off by more than 8 % (5 launches)")
    tables["fits"] = fits.assign(alpha_s_low=np.nan)
    assert not [s for s in verdict(tables) if "latency" in s.text]


def test_a_collective_beside_gemms(tmp_path: Path) -> None:
    tables = tables_of(synthetic_collective.build(tmp_path / "run"))
    del tables["fits"]
    summary = tables["summary"]
    last = len(summary) - 1
    for name, value in (("t_comm", 0.188e-3), ("t_loaded", 0.366e-3)):
        with_numbers(summary, last, **{name: value, f"{name}_low": 0.9 * value, f"{name}_high": 1.1 * value})
    (said,) = verdict(tables)
    assert said.about == "all_reduce of 16 MiB"
    assert said.text == "188.0 µs [169.2, 206.8] alone, 366.0 µs [329.4, 402.6] beside GEMMs that cover it"


def pipelines(*rates: tuple[str, float, float, float]) -> Tables:
    rows = [
        {
            "key": f"pp schedule={name} c=1",
            "bench": "pp",
            "launch": 0.0,
            "status": "ok",
            "source": "measured",
            "placement": "concurrent",
            "rounds": 20.0,
            "t_compute": 1.0,
            "t_comm": 0.5,
            "schedule": name,
            "bubble_rate": value,
            "bubble_rate_low": low,
            "bubble_rate_high": high,
            "bubble_rate_schedule": 0.117,
        }
        for name, value, low, high in rates
    ]
    return {"summary": pd.DataFrame(rows)}


def test_the_bubble_of_a_pipeline_and_the_least(tmp_path: Path) -> None:
    said = verdict(pipelines(("1f1b", 0.24, 0.2, 0.28), ("zb_h1", 0.1, 0.05, 0.15)), 20)
    assert texts(said) == [
        "ranks idle 24.0 % [20.0, 28.0] of the longest stage span; its schedule alone leaves 11.7 %",
        "ranks idle 10.0 % [5.0, 15.0] of the longest stage span; its schedule alone leaves 11.7 %",
        "idles least: zb_h1 (10.0 % [5.0, 15.0]), the next 1f1b (24.0 % [20.0, 28.0])",
    ]
    last = texts(verdict(pipelines(("1f1b", 0.24, 0.1, 0.28), ("zb_h1", 0.1, 0.05, 0.15))))[-1]
    assert last == (
        "idles least, of all that the intervals do not tell apart: zb_h1 (10.0 % [5.0, 15.0]), "
        "1f1b (24.0 % [10.0, 28.0])"
    )
    assert verdict(pipelines(("1f1b", 0.24, np.nan, 0.28))) == []


def test_what_a_mistake_in_the_ordering_costs(tmp_path: Path) -> None:
    def row(variant: str, wrong: float, step: float) -> dict[str, Any]:
        key = f"ordering variant={variant} c=1"
        times = {"t_step": step, "t_step_low": 0.95 * step, "t_step_high": 1.05 * step, "t_compute": np.nan}
        counts = {"elements": 100.0, "elements_wrong": wrong, "correct": float(wrong == 0), "rounds": 11.0}
        words = {"key": key, "bench": "ordering", "status": "ok", "source": "measured", "placement": "concurrent"}
        return words | {"launch": 0.0, "variant": variant, "t_comm": np.nan} | times | counts

    rows = [row("correct", 0, 0.03), row("missing_wait", 12, 0.03), row("global_sync", 0, 0.04)]
    said = verdict({"summary": pd.DataFrame(rows)}, 20)
    assert [(s.about, s.text) for s in said] == [
        ("missing_wait", "12 of 100 elements wrong in n = 11 rounds (only n = 11 of the 20 rounds asked for)"),
        (
            "global_sync",
            "right, but a step takes 40.00 ms [38.00, 42.00], longer than 30.00 ms [28.50, 31.50] of the correct order "
            "(only n = 11 of the 20 rounds asked for)",
        ),
    ]
    rows[2] |= {"t_step_low": 0.031}
    assert not [s for s in verdict({"summary": pd.DataFrame(rows)}) if "right, but" in s.text]
