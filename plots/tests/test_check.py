# SPDX-License-Identifier: Apache-2.0
"""Each kind of corruption is found, with file, line, column, what is there and what should be."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import synthetic

from overlap_plots import derive
from overlap_plots.check import check_run

Rows = list[dict[str, Any]]


def summary() -> Rows:
    return [synthetic.summary_row(case) for case in synthetic.CASES]


def samples() -> Rows:
    return [row for case in synthetic.CASES if case.status in ("ok", "noisy") for row in synthetic.sample_rows(case)]


def problems(directory: Path, table: str, rows: Rows) -> list[str]:
    synthetic.write(directory, table, rows)
    return [str(problem) for problem in check_run(directory)[1]]


def test_a_sound_run_passes_and_says_what_was_checked(run_directory: Path) -> None:
    said, found = check_run(run_directory)
    assert found == []
    assert said == [
        "run.json: 3 table schemas",
        "summary.csv: 7 rows of 96 columns, header and types against run.json",
        "samples.csv: 480 rows of 20 columns, header and types against run.json",
        "operations.csv: 24 rows of 23 columns, header and types against run.json",
        "summary.csv: 7 cases (5 ok, 1 noisy, 1 unsupported), statuses, sources and keys",
        "samples.csv: 6 cases, looked up in summary.csv",
        "operations.csv: 2 cases, looked up in summary.csv",
        "recomputed from samples.csv: 90 numbers of 6 cases, compared to 1e-9",
    ]


def test_a_hidden_share_that_does_not_follow(run_directory: Path) -> None:
    rows = summary()
    rows[2]["hidden_share"] = -0.4
    (found,) = problems(run_directory, "summary", rows)
    assert found.startswith("summary.csv:4: column hidden_share: got -0.4, expected -0.5")


def test_differences_beyond_1e_9_are_found_and_rounding_is_not(run_directory: Path) -> None:
    rows = summary()
    rows[0]["hidden_share"] += 1e-12
    rows[0]["t_step"] *= 1 + 1e-12
    assert problems(run_directory, "summary", rows) == []
    rows[0]["hidden_share"] += 1e-8
    rows[1]["t_exposed"] += 1e-8 * rows[1]["t_step"]
    found = problems(run_directory, "summary", rows)
    assert [line.split(":")[1:3] for line in found] == [["2", " column hidden_share"], ["3", " column t_exposed"]]


def test_a_number_where_none_was_measured_and_none_where_one_was(run_directory: Path) -> None:
    rows = summary()
    rows[0]["speedup"] = ""
    rows[5]["t_step"] = 0
    unmeasured, empty = problems(run_directory, "summary", rows)
    assert unmeasured == "summary.csv:7: column t_step: got 0, expected an empty field, as the status is unsupported"
    assert empty.startswith("summary.csv:2: column speedup: got an empty field, expected 1.6363636363636")


def test_illegal_status_and_source(run_directory: Path) -> None:
    rows = summary()
    rows[0]["status"] = "fine"
    rows[1]["source"] = "guessed"
    found = problems(run_directory, "summary", rows)
    assert 'summary.csv:2: column status: got "fine", expected one of ok, noisy' in found[0]
    assert any('summary.csv:3: column source: got "guessed"' in line for line in found)


def test_a_case_twice(run_directory: Path) -> None:
    rows = summary()
    (found,) = problems(run_directory, "summary", [*rows, rows[0]])
    assert found.startswith("summary.csv:9: column key: got")
    assert found.endswith("again, expected one row a case; line 2 has it")


def test_samples_of_a_case_that_never_finished(run_directory: Path) -> None:
    (found,) = problems(run_directory, "samples", samples() + synthetic.sample_rows(synthetic.Case("new", launch=3)))
    key = synthetic.Case("new").key
    assert found.startswith(f'samples.csv:482: column key: got "{key}" of launch 3, expected a case with a row')


def test_a_measured_case_without_samples_but_not_a_model_one(run_directory: Path) -> None:
    model = synthetic.CASES[4].key
    kept = [row for row in samples() if row["key"] != model]
    assert problems(run_directory, "samples", kept) == []
    assert check_run(run_directory)[0][-1].endswith("; 1 case without samples not recomputed")
    found = problems(run_directory, "samples", [row for row in kept if row["key"] != synthetic.CASES[0].key])
    assert "expected samples of summary.csv:2, which has numbers" in found[0]


def test_ranks_that_disagree_about_the_step(run_directory: Path) -> None:
    rows = samples()
    rows[3]["step"] = 1.5
    assert problems(run_directory, "samples", rows) == [
        "samples.csv:5: column step: got 1.5, expected what the replay's other ranks say"
    ]


def test_used_and_repeats_are_what_they_can_be(run_directory: Path) -> None:
    rows = samples()
    rows[0]["used"] = rows[1]["used"] = 2
    rows[2]["repeats"] = rows[3]["repeats"] = 0
    found = problems(run_directory, "samples", rows)
    assert "samples.csv:2: column used: got 2, expected 0 or 1" in found
    assert "samples.csv:4: column repeats: got 0, expected at least 1" in found


def test_a_rank_twice_in_a_replay(run_directory: Path) -> None:
    rows = samples()
    rows.insert(1, rows[0])
    assert problems(run_directory, "samples", rows) == [
        "samples.csv:3: column rank: got 0, expected one row a rank of a replay"
    ]


def test_a_round_may_hold_many_replays_of_an_arm(run_directory: Path) -> None:
    """``--interleave block``: each on the next slot, and the medians are over all of them."""
    rows = samples()
    again = [row | {"slot": row["slot"] + 2} for row in rows]
    assert problems(run_directory, "samples", rows + again) == []
    for row in again:
        row["step"] *= 1.5
        row["own"] *= 1.5
    found = problems(run_directory, "samples", rows + again)
    assert any("column t_step" in line for line in found), found


def test_exposed_time_by_cause_is_the_whole_of_it(run_directory: Path) -> None:
    rows = summary()
    row = next(row for row in rows if row["status"] == "ok")
    parts = {"exposed_peer": 0.0, "exposed_shared": 0.0, "exposed_units": 0.0, "exposed_launch": 0.0}
    row |= parts | {"exposed_transfer": row["t_exposed"]}
    assert problems(run_directory, "summary", rows) == []
    row["exposed_peer"] = 0.001
    (problem,) = problems(run_directory, "summary", rows)
    assert "exposed_transfer: got" in problem
    assert "expected parts that add up to t_exposed" in problem


def test_header_types_and_field_counts(run_directory: Path) -> None:
    path = run_directory / "samples.csv"
    good = path.read_text(encoding="utf-8")

    def after(text: str) -> str:
        path.write_text(text, encoding="utf-8")
        return str(check_run(run_directory)[1][0])

    assert (
        after(good.replace("own", "mine", 1))
        == 'samples.csv:1: column 11: got "mine", expected "own", as run.json says'
    )
    assert after(good.replace(",noise\n", "\n", 1)) == "samples.csv:1: got 19 columns, expected 20, as run.json says"
    assert after(good + "a,b\n") == "samples.csv:482: got 2 fields, expected 20, as in the header"
    assert after(good + 'a,"b\n') == (
        "samples.csv: got text that is no CSV from line 482 on (unexpected end of data), expected CSV text in UTF-8"
    )
    assert "the samples that summary.csv derives from" in after_removal(path, run_directory)


def after_removal(path: Path, directory: Path) -> str:
    path.unlink()
    return str(check_run(directory)[1][0])


def test_costs_follow_from_the_samples() -> None:
    """Two rounds of two ranks, two collectives in a window. Alone the ranks take 2 and 4 ms, then 4 and 6; beside
    compute from the last start, 1 ms, to the last end, 7 and 9 ms; in the second round compute ends at 8."""
    rows = []
    for round_, longer in ((0, 0), (1, 2)):
        shared = {"key": "k", "launch": 0, "round": round_, "slot": round_, "repeats": 2, "used": 1}
        for rank, own in ((0, 2 + longer), (1, 4 + longer)):
            times = {"compute_start": math.nan, "compute_span": math.nan, "comm_start": 0.0, "comm_span": own}
            rows.append(shared | {"arm": "comm", "rank": rank, "own": own} | times)
        for rank, start in ((0, 0), (1, 1)):
            times = {"compute_start": 0, "compute_span": 8, "comm_start": start, "comm_span": 7 + longer - start}
            rows.append(shared | {"arm": "loaded", "rank": rank, "own": 8} | times)
    (costs,) = derive.costs(pd.DataFrame(rows)).to_dict("records")
    assert costs == {"t_rank_min": 1.5, "t_rank_median": 2.0, "t_rank_max": 2.5, "t_loaded": 3.5, "coverage": 0.5}
