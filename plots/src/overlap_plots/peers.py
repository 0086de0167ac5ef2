# SPDX-License-Identifier: Apache-2.0
"""The peers' definitions of overlap from the same samples, as harness/metrics/peers.hpp has them: name, unit, words and
source are the same there. They give 0 % to 100 % on one run; they clamp where the peer clamps, and nowhere else do we.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from overlap_plots import derive

Values: TypeAlias = "pd.Series[float]"

# Of which cases the spans of samples.csv are what a trace would show: one kind of operation a lane, back to back. In a
# training schedule a lane's span holds gaps, which are no running time.
_WITHOUT_GAPS = "pair"


@dataclass(frozen=True)
class Peer:
    name: str
    unit: str  # "%", "1" or "s"
    definition: str  # in our names; running_*: lengths within the overlapped run
    source: str
    of: Callable[[pd.DataFrame], Values]


def _saved(t: pd.DataFrame) -> Values:
    return t["t_compute"] + t["t_comm"] - t["t_step"]


def _exposed(t: pd.DataFrame) -> Values:
    return t["t_step"] - t["t_compute"]


def _longer(t: pd.DataFrame) -> Values:
    return t[["t_compute", "t_comm"]].max(axis=1, skipna=False)


def _shorter(t: pd.DataFrame) -> Values:
    return t[["t_compute", "t_comm"]].min(axis=1, skipna=False)


def _fraction_of_ideal(serial: Values, t: pd.DataFrame) -> Values:
    """(S - 1) / (S_ideal - 1); NaN where the ideal gains nothing."""
    gain = serial / _longer(t) - 1
    return (serial / t["t_step"] - 1) / gain.where(gain > 0)


PEERS = (
    Peer(
        "osu_overlap",
        "%",
        "max(0, 100 - 100 (step - compute) / comm); OSU repeats its compute for a fixed time, here it is fixed work",
        "OSU micro-benchmarks 7.4, c/util/osu_util_mpi.c:3298-3395",
        lambda t: (100 - 100 * _exposed(t) / t["t_comm"]).clip(lower=0),
    ),
    Peer(
        "imb_nbc_overlap",
        "%",
        "100 clamp((compute + comm - step) / max(compute, comm)); "
        "IMB's compute time is taken during the overlapped run",
        "intel/mpi-benchmarks 46e8757, src_c/IMB_output.c:319 (its guide says min)",
        lambda t: 100 * (_saved(t) / _longer(t)).clip(lower=0, upper=1),
    ),
    Peer(
        "imb_overlap",
        "%",
        "100 clamp((compute + comm - step) / min(compute, comm))",
        "intel/mpi-benchmarks 46e8757, src_c/IMB_output.c:338 (the sets other than NBC)",
        lambda t: 100 * (_saved(t) / _shorter(t)).clip(lower=0, upper=1),
    ),
    Peer(
        "hta_overlap",
        "%",
        "100 running_both / running_comm; nsys-ai the same",
        "HolisticTraceAnalysis f4d0062, docs/source/features/comm_comp_overlap.rst",
        lambda t: 100 * t["running_both"] / t["running_comm"],
    ),
    Peer(
        "aorta_overlap",
        "%",
        "100 running_both / running_compute",
        "ROCm/aorta, overlap_report.py",
        lambda t: 100 * t["running_both"] / t["running_compute"],
    ),
    Peer(
        "tracelens_exposed",
        "s",
        "running_comm - running_both",
        "AMD TraceLens 171dd747, exposed_comm",
        lambda t: t["running_comm"] - t["running_both"],
    ),
    Peer("flux_ect", "s", "step - compute", "FLUX paper, equation 1", _exposed),
    Peer(
        "flux_efficiency",
        "1",
        "1 - (step - compute) / (serial - compute)",
        "FLUX paper, equation 2",
        lambda t: 1 - _exposed(t) / (t["t_serial"] - t["t_compute"]),
    ),
    Peer(
        "c3_fraction_of_ideal",
        "1",
        "(S - 1) / (S_ideal - 1), S = (compute + comm) / step, S_ideal = (compute + comm) / max(compute, comm)",
        "ConCCL, arXiv 2412.14335: S_ideal from its abstract, the form inferred",
        lambda t: _fraction_of_ideal(t["t_compute"] + t["t_comm"], t),
    ),
    Peer(
        "conccl_fraction_of_ideal",
        "1",
        "the same on the measured serial run: S = serial / step, S_ideal = serial / max(compute, comm)",
        "ConCCL, arXiv 2412.14335: S_ideal from its abstract, the form inferred",
        lambda t: _fraction_of_ideal(t["t_serial"], t),
    ),
    Peer(
        "tritonblas_efficiency",
        "1",
        "max(compute, comm) / step",
        "ROCm/tritonBLAS 95e2c47, benchmarks/overlap.py:461-481",
        lambda t: _longer(t) / t["t_step"],
    ),
    Peer(
        "mori_efficiency",
        "1",
        "max(running_compute, running_comm) / step: near 1 by construction",
        "ROCm/mori pull request 200, test_reducescatter_overlap.py",
        lambda t: t[["running_compute", "running_comm"]].max(axis=1, skipna=False) / t["t_step"],
    ),
)


def peer_metrics(times: pd.DataFrame) -> pd.DataFrame:
    """One column a peer, from t_compute, t_comm, t_serial, t_step, running_compute, running_comm and running_both in
    seconds; a NaN among those that a peer needs gives NaN. The index stays."""
    return pd.DataFrame({peer.name: peer.of(times) for peer in PEERS}, index=times.index, dtype=float)


def peer_times(samples: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """Indexed by (key, launch), what ``peer_metrics`` takes: medians over the used rounds, all of one operation."""
    times = derive.arm_medians(samples).drop(columns="rounds")
    running = _running(samples)
    back_to_back = summary.loc[summary["bench"] == _WITHOUT_GAPS, "key"]
    running = running[running.index.get_level_values("key").isin(back_to_back)]
    return times.join(running.reindex(times.index))


def _running(samples: pd.DataFrame) -> pd.DataFrame:
    """By (key, launch): how long compute, communication and both at once ran in the overlapped arm, per operation; of
    each replay the mean of the ranks, over the used rounds their median. NaN where the samples have no starts."""
    names = ["running_compute", "running_comm", "running_both"]
    used = samples[(samples["used"] == 1) & (samples["arm"] == "overlapped")]
    used = used.reindex(columns=[*used.columns.union(["compute_start", "comm_start"], sort=False)])
    begins = np.maximum(used["compute_start"], used["comm_start"])
    ends = np.minimum(used["compute_start"] + used["compute_span"], used["comm_start"] + used["comm_span"])
    used = used.assign(
        running_compute=used["compute_span"] / used["repeats"],
        running_comm=used["comm_span"] / used["repeats"],
        running_both=np.maximum(ends - begins, 0) / used["repeats"],  # 0 where one ends before the other begins
    )
    of_replays = used.groupby(derive.REPLAY)[names].mean()
    return of_replays.groupby(["key", "launch"])[names].median()
