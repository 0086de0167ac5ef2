# SPDX-License-Identifier: Apache-2.0
"""The page's arithmetic against the C++ that it repeats: tests/golden/lab_values.json, which tests/metrics keeps
true."""

import json
import math
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

LAB = files("overlap_plots.lab")
GOLDEN = json.loads((Path(__file__).parents[2] / "tests/golden/lab_values.json").read_text(encoding="utf-8"))

# From a golden row to the numbers that the page has for it, under the names of the row.
COMPUTE = {
    "timeline": """(row) => {
      const r = timeline({ ...row, slowCompute: row.slow_compute, slowComm: row.slow_comm });
      return { compute_end: r.computeEnd, beside_end: r.besideEnd, step: r.step, ideal: r.ideal, bound: r.bound,
        overlap: r.overlap, exposed: r.exposed, hidden_share: r.hiddenShare, hidden_fraction: r.hiddenFraction,
        speedup: r.speedup, pays: r.pays };
    }""",
    "bucket": """(row) => {
      const spans = bucketSpans(row, row.buckets);
      return { first_end: spans[0].end, last_end: spans.at(-1).end, exposed: exposedTime(row, row.buckets),
        bottom: bottomOfCurve(row), best: bestBucketCount(row) };
    }""",
    "wire": "(row) => ({ wire: wireTime(row.bytes, row.ranks, row.bandwidth) })",
    "count": "(row) => ({ buckets: bucketCount(row.total, row.bucket) })",
    "fluid": """(row) => ({ backlog: backlogAt(row, row.time), growth: growthRate(row), drain: drainTime(row),
      output: outputRate(row, row.time) })""",
    "steady": """(row) => {
      const named = (means) => means === null ? "unstable" : { in_system: means.inSystem,
        time_in_system: means.timeInSystem, in_queue: means.inQueue, time_in_queue: means.timeInQueue };
      return { utilization: row.arrival / row.service, mm1: named(mm1(row)), md1: named(md1(row)) };
    }""",
}
INPUTS = {
    "timeline": {"compute", "comm", "beside", "slow_compute", "slow_comm"},
    "bucket": {"backward", "wire", "latency", "buckets"},
    "wire": {"bytes", "ranks", "bandwidth"},
    "count": {"total", "bucket"},
    "fluid": {"arrival", "service", "initial", "time"},
    "steady": {"arrival", "service"},
}


def run_node(module: str, expression: str, given: Any = None) -> Any:
    """The value of an expression over ``given``, beside what a module of the lab declares."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; type: apt-get install nodejs")
    source = (LAB / module).read_text(encoding="utf-8")
    program = (
        f"{source}\nconst given = {json.dumps(given)};\n"
        f"console.log(JSON.stringify({expression}, (_, v) => v === Infinity ? 'Infinity' : v));\n"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-"], input=program, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def differences(ours: Any, golden: Any, path: str) -> list[str]:
    if isinstance(golden, dict):
        assert isinstance(ours, dict) and ours.keys() == golden.keys(), path
        return [line for name in golden for line in differences(ours[name], golden[name], f"{path}.{name}")]
    if isinstance(golden, float | int) and isinstance(ours, float | int):
        # One rounding more or less; sums of a second's parts that cancel leave 1e-16 of it.
        close = math.isclose(ours, golden, rel_tol=1e-12, abs_tol=1e-16)
        return [] if close else [f"{path}: {ours} here, {golden} in C++"]
    return [] if ours == golden else [f"{path}: {ours} here, {golden} in C++"]


@pytest.mark.parametrize("topic", COMPUTE)
def test_the_page_computes_what_the_harness_computes(topic: str) -> None:
    rows = GOLDEN[topic]
    computed = run_node("model.js", f"given.map({COMPUTE[topic]})", rows)
    assert len(rows) >= 4
    found = []
    for index, (ours, row) in enumerate(zip(computed, rows, strict=True)):
        golden = {name: value for name, value in row.items() if name not in INPUTS[topic]}
        found += differences(ours, golden, f"{topic}[{index}]")
    assert found == []


def test_the_golden_rows_are_of_these_topics() -> None:
    assert set(GOLDEN) == {*COMPUTE, "assumptions"}


def test_the_assumptions_are_worded_alike() -> None:
    assert run_node("model.js", "({ mm1: MM1_ASSUMPTIONS, md1: MD1_ASSUMPTIONS })") == GOLDEN["assumptions"]


def test_a_changed_number_would_be_found() -> None:
    assert differences({"a": {"b": 1.0}}, {"a": {"b": 1.0 + 1e-9}}, "x") == ["x.a.b: 1.0 here, 1.000000001 in C++"]
    assert differences({"a": "unstable"}, {"a": 4.0}, "x") == ["x.a: unstable here, 4.0 in C++"]


def test_numbers_as_people_read_them() -> None:
    calls = {
        "seconds(0.000439)": "439\u00a0µs",
        "seconds(0.1)": "100\u00a0ms",
        "seconds(0.9999)": "1\u00a0s",
        "seconds(0)": "0\u00a0s",
        "seconds(-0.0031)": "−3.1\u00a0ms",
        "seconds(Infinity)": "never",
        "bytes(26214400)": "25\u00a0MiB",
        "bytes(14e9)": "13.04\u00a0GiB",
        "bytes(700)": "700\u00a0B",
        "bandwidth(150e9)": "150\u00a0GB/s",
        "percent(0.916)": "91.6\u00a0%",
        "percent(-0.759)": "−75.9\u00a0%",
        "percent(-0.0001)": "0\u00a0%",
        "times(1.755)": "1.75×",
        "count(1, 'bucket')": "1 bucket",
        "count(1024, 'bucket')": "1024 buckets",
        "count(1.391, 'layer')": "1.39 layers",
        "wholeSeconds(0.2504)": "0.25\u00a0s",
        "digits(1234.5)": "1235",
        "digits(0.06)": "0.06",
        "ticks(12, 5)": [0, 5, 10],
        "ticks(0.000827, 4)": [0, 0.0005],
    }
    assert run_node("format.js", f"[{', '.join(calls)}]") == list(calls.values())
