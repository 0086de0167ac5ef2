# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic

from overlap_plots.load import load_run
from overlap_plots.peers import PEERS, peer_metrics, peer_times

# Times alone, in turn and together, and what other tools' definitions make of them: published examples, to the digits
# in which they are quoted. tests/metrics/peers_test.cpp holds the C++ to the same.
VECTORS = (
    # compute, comm, serial, step: of the ideal (on serial), FLUX's ECT and efficiency, IMB NBC, IMB, OSU
    ("ring, perfect", 100, 186.6667, 286.6667, 186.6667, 1.0, 86.6667, 0.5357, 53.57, 100, 53.57),
    ("ring, none", 100, 186.6667, 286.6667, 286.6667, 0.0, 186.6667, 0.0, 0, 0, 0),
    ("balanced, perfect", 100, 100, 200, 100, 1.0, 0.0, 1.0, 100, 100, 100),
    ("balanced, 1.3x both", 100, 100, 200, 130, 0.5385, 30.0, 0.7, 70, 70, 70),
    ("1.3x, short compute", 50, 100, 150, 115, 0.6087, 65.0, 0.35, 35, 70, 35),
    ("coconet", 48.984436, 106.608643, 157.270889, 207.144745, -0.5066, 158.1603, -0.4606, 0, 0, 0),
    ("worse than serial", 100, 100, 200, 220, -0.0909, 120.0, -0.2, 0, 0, 0),
)
TIMES = ["t_compute", "t_comm", "t_serial", "t_step"]
RUNNING = ["running_compute", "running_comm", "running_both"]


def metrics(*times: float) -> "pd.Series[float]":
    known = [*times, *([np.nan] * (7 - len(times)))]
    return peer_metrics(pd.DataFrame([known], columns=[*TIMES, *RUNNING], dtype=float)).iloc[0]


@pytest.mark.parametrize("row", VECTORS, ids=[row[0] for row in VECTORS])
def test_published_examples(row: tuple[float, ...]) -> None:
    _, compute, comm, serial, step, conccl, ect, flux, imb_nbc, imb, osu = row
    found = metrics(compute, comm, serial, step)
    assert found["conccl_fraction_of_ideal"] == pytest.approx(conccl, abs=5e-5)
    assert found["flux_ect"] == pytest.approx(ect, abs=5e-5)
    assert found["flux_efficiency"] == pytest.approx(flux, abs=5e-5)
    assert found["imb_nbc_overlap"] == pytest.approx(imb_nbc, abs=5e-3)
    assert found["imb_overlap"] == pytest.approx(imb, abs=5e-3)
    assert found["osu_overlap"] == pytest.approx(osu, abs=5e-3)
    assert found[["hta_overlap", "aorta_overlap", "tracelens_exposed", "mori_efficiency"]].isna().all()


def test_one_run_reads_zero_to_a_hundred_percent() -> None:
    # Both need one resource and share it fairly: 1 s alone, 2 s together. Nothing was gained; each peer's word:
    found = metrics(1, 1, 2, 2, 2, 2, 2)
    assert found.to_dict() == {
        "osu_overlap": 0,
        "imb_nbc_overlap": 0,
        "imb_overlap": 0,
        "hta_overlap": 100,
        "aorta_overlap": 100,
        "tracelens_exposed": 0,
        "flux_ect": 1,
        "flux_efficiency": 0,
        "c3_fraction_of_ideal": 0,
        "conccl_fraction_of_ideal": 0,
        "tritonblas_efficiency": 0.5,
        "mori_efficiency": 1,
    }


def test_what_a_peer_cannot_know_is_nan() -> None:
    assert np.isnan(metrics(1, 1, np.nan, 1)[["flux_efficiency", "conccl_fraction_of_ideal"]]).all()
    assert metrics(1, 1, np.nan, 1)["c3_fraction_of_ideal"] == 1
    assert np.isnan(metrics(1, 0, 1, 1)["c3_fraction_of_ideal"])  # an ideal that gains nothing
    assert np.isnan(metrics(np.nan, 1, 2, 1)[["osu_overlap", "imb_overlap", "tritonblas_efficiency"]]).all()


def test_names_units_words_and_sources_are_those_of_the_harness() -> None:
    source = (Path(__file__).parents[2] / "harness" / "metrics" / "peers.cpp").read_text(encoding="utf-8")
    said = re.findall(r'\{"(\w+)",[^"]*"(%|1|s)",\s*"([^"]*)",\s*"([^"]*)"\}', source)
    assert said == [(peer.name, peer.unit, peer.definition, peer.source) for peer in PEERS]


def test_the_times_are_medians_of_the_used_samples(tmp_path: Path) -> None:
    # 10 and 8 ms overlap in 11; the spans of a window are 1 / 1.05 and 1 / 1.1 of it, both from its begin on. Rank 1's
    # communication begins 40 % into the window and ends with it: its time beside compute is shorter, the mean counts.
    run = load_run(synthetic.build(tmp_path / "run", (synthetic.CASES[0],)))
    summary, samples = (run.tables[name].frame for name in ("summary", "samples"))
    times = peer_times(samples, summary).iloc[0]
    assert times[TIMES].tolist() == pytest.approx([0.010, 0.008, 0.018, 0.011])
    assert times[RUNNING].tolist() == pytest.approx([0.011 / 1.05, 0.011 / 1.1, 0.011 / 1.1])
    late = samples["rank"] == 1
    samples.loc[late, "comm_start"] = 0.4 * samples["step"]
    samples.loc[late, "comm_span"] = 0.6 * samples["step"]
    times = peer_times(samples, summary).iloc[0]
    both = (0.011 / 1.1 + 0.011 * (1 / 1.05 - 0.4)) / 2
    assert times[RUNNING].tolist() == pytest.approx([0.011 / 1.05, (0.011 / 1.1 + 0.011 * 0.6) / 2, both])
    samples.loc[late, "comm_start"] = 2 * samples["step"]  # after compute has ended: no time is shared
    assert peer_times(samples, summary).iloc[0]["running_both"] == pytest.approx(0.011 / 1.1 / 2)


def test_spans_with_gaps_are_no_running_times(tmp_path: Path) -> None:
    run = load_run(synthetic.build(tmp_path / "run", (synthetic.CASES[0],)))
    summary, samples = (run.tables[name].frame for name in ("summary", "samples"))
    times = peer_times(samples, summary.assign(bench="ddp")).iloc[0]
    assert times[TIMES].notna().all()
    assert times[RUNNING].isna().all()
    without = peer_times(samples.drop(columns="comm_start"), summary).iloc[0]
    assert without[RUNNING].isna().tolist() == [False, False, True]
