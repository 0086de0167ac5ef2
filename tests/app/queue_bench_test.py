# SPDX-License-Identifier: Apache-2.0
"""overlap-queue as a user runs it: the fluid line of given rates, replays beside it, errors that say what to type."""

from __future__ import annotations

import csv
import io
import unittest

from binaries import BUILD, QUICK, RunTest, run, table, words
from emulated import environment, needs_emulation

QUEUE = BUILD / "bin" / "overlap-queue"
SMALL = words("--ranks 2 --bytes 16KiB --backlog 8 --duration 20ms")

# arrival rate, service rate, backlog; slope, drain time; the backlog at 0, 1, 2, 3, 4, 5 and 8 s.
FLUID = (
    (4, 3, 4, "1", "inf", {0: 4, 1: 5, 2: 6, 3: 7, 4: 8, 5: 9, 8: 12}),
    (2, 3, 4, "-1", "4", {0: 4, 1: 3, 2: 2, 3: 1, 4: 0, 5: 0, 8: 0}),
    (2, 3, 0, "-1", "0", {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 8: 0}),
    (3, 3, 4, "0", "inf", {0: 4, 1: 4, 2: 4, 3: 4, 4: 4, 5: 4, 8: 4}),
)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def given(arrival: object, service: object, backlog: object = 4) -> list[str]:
    line = (
        f"--backend model --arrival-rate {arrival} --service-rate {service} --backlog {backlog} --duration 8 --step 1"
    )
    return words(line)


class Given(RunTest):
    def test_csv_is_the_fluid_line(self):
        for arrival, service, backlog, slope, drain, by_hand in FLUID:
            ran = run(QUEUE, *given(arrival, service, backlog), "--format", "csv")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertTrue(ran.stdout.startswith("time_s,backlog,growth_rate,drain_time_s,"))
            line = rows(ran.stdout)
            self.assertEqual([row["time_s"] for row in line], [str(t) for t in range(9)])
            self.assertEqual({row["growth_rate"] for row in line}, {slope})
            self.assertEqual({row["drain_time_s"] for row in line}, {drain})
            self.assertEqual({row["kind"] for row in line}, {"fluid"})
            for time, expected in by_hand.items():
                self.assertEqual(line[time]["backlog"], str(expected), f"{arrival} {service} {backlog} at {time}")

    def test_the_table_has_single_operations_beside_it_and_the_means(self):
        ran = run(QUEUE, *words("--arrival-rate 2,4 --service-rate 3 --backlog 40 --duration 60 --step 1"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        # A staircase whose steps fall on the points: by rounding some are on the next.
        self.assertRegex(ran.stdout, r"\n2 +0\.667 +2 +3 +-(1|1\.0[12]|0\.9[89]\d) +-1 +39\.\d s +40\.0 s +40 ")
        self.assertRegex(ran.stdout, r"\n4 +1\.33 +4 +3 +(1|1\.0[12]|0\.9[89]\d) +1 +- +never ")
        self.assertRegex(ran.stdout, r"M/M/1 +2 +1\.00 s +1\.33 +667 ms")
        self.assertRegex(ran.stdout, r"M/D/1 +unstable +unstable +unstable +unstable")
        self.assertIn("Little's law, L = throughput x W, each counted by itself: holds in every case.", ran.stdout)

    def test_a_run_directory_holds_the_line(self):
        ran = run(QUEUE, *given("2,4", 3), "--out", self.out, "--allow-debug", "--format", "csv")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(table(self.out / "series.csv")), 18)
        self.assertEqual(rows(ran.stdout), table(self.out / "series.csv"))
        again = run(QUEUE, *given("2,4", 3), "--out", self.out, "--allow-debug", "--format", "csv", "--resume")
        self.assertEqual(again.stdout, ran.stdout)


class Measured(RunTest):
    def test_replays_on_this_machine(self):
        ran = run(
            QUEUE, *SMALL, *QUICK, *words("--backend host --arrival-rate 500,2000 --lanes 1,2"), "--out", self.out
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(4)
        for row in self.summary():
            self.assertEqual((row["launch_mode"], row["verify"]), ("live", "exact+random"))
            self.assertEqual(row["capacity_gain"] == "", row["lanes"] == "1")
            self.assertAlmostEqual(float(row["little_gap"]), 0, places=9)
            self.assertGreater(float(row["service_rate"]), 0)
        series = table(self.out / "series.csv")
        self.assertEqual({row["kind"] for row in series}, {"replay"})
        self.assertEqual({row["key"] for row in series}, {row["key"] for row in self.summary()})
        for row in series:
            self.assertEqual(float(row["submitted"]) - float(row["completed"]), float(row["backlog"]))
            self.assertGreaterEqual(float(row["backlog"]), 0)
        self.assertIn("Over several lanes (communicators):", ran.stdout)

    def test_given_services_keep_lanes_busy(self):
        line = "--backend host --service-rate 500 --arrival-rate 250 --backlog 5 --duration 40ms --format csv"
        ran = run(QUEUE, *words(line), *QUICK)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual({row["kind"] for row in rows(ran.stdout)}, {"replay"})

    def test_too_long_a_plan_is_a_row_that_says_so(self):
        ran = run(QUEUE, *SMALL, *QUICK, *words("--backend host --arrival-rate 1e9"))
        self.assertEqual(ran.returncode, 3)
        self.assertIn("too many for one replay", ran.stdout)

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            (given(0, 3), "arrival rate 0 is not possible"),
            (given(-1, 3), "arrival rate -1 is not possible"),
            (given("nan", 3), "arrival rate nan is not possible"),
            (given(4, 0), "service rate 0 is not possible"),
            (given(4, "nan"), "service rate nan is not possible"),
            (given(4, 3, -2), "backlog -2 is not possible"),
            (given(4, 3, 2.5), '--backlog "2.5" is no whole number'),
            (given("x", 3), '--arrival-rate "x" is not a number; type for example --arrival-rate 4'),
            (words("--load 0"), "load 0 is not possible"),
            (words("--load nan"), "load nan is not possible"),
            (words("--load 1 --arrival-rate 4"), "--arrival-rate and --load both say how much arrives"),
            (words("--arrivals uniform"), 'arrivals "uniform" is unknown'),
            (words("--arrivals constant:3"), '--arrivals "constant:3" has a seed'),
            (words("--lanes 0"), 'lanes "0" is not a number of lanes'),
            (words("--duration 0"), '--duration "0" is not a duration'),
        ):
            ran = run(QUEUE, *arguments, "--list")
            self.assertEqual(ran.returncode, 2, arguments)
            self.assertEqual(ran.stdout, "")
            self.assertIn(message, ran.stderr)


@needs_emulation
class EmulatedGpus(RunTest):
    def test_a_submitting_host_thread(self):
        line = (
            "--backend cuda --arrival-rate 500,2000 --lanes 1,2 --bytes 4KiB --backlog 6 --duration 20ms --allow-debug"
        )
        ran = run(QUEUE, *words(line), *QUICK, "--out", self.out, env=environment(2))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(4)
        for row in self.summary():
            self.assertEqual((row["source"], row["launch_mode"]), ("emulated", "live"))
            self.assertAlmostEqual(float(row["little_gap"]), 0, places=6)
        self.assertTrue(table(self.out / "series.csv"))


if __name__ == "__main__":
    unittest.main()
