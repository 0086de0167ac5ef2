# SPDX-License-Identifier: Apache-2.0
"""overlap-pair on emulated GPUs: placements, dtypes, collectives, buffers, lost processes."""

from __future__ import annotations

import signal
import unittest

from binaries import ENVIRONMENT, PAIR, PATIENCE, TINY, RunTest, run, table, words
from emulated import CASE, environment, needs_emulation, pair, processes, rows

PLACEMENTS = "concurrent,serial,comm_first,compute_first,event_chained,priority_comm,priority_compute,graph"


@needs_emulation
class OneProcess(RunTest):
    def test_rows_say_what_they_are(self):
        ran = pair(*CASE, "--format", "csv", gpus=2)
        for row in rows(ran.stdout):
            self.assertEqual((row["backend"], row["source"], row["transport"]), ("cuda", "emulated", "nccl"))

    def test_every_placement(self):
        ran = pair(*CASE, "--placement", PLACEMENTS, "--format", "csv", gpus=2)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual([row["placement"] for row in rows(ran.stdout)], PLACEMENTS.split(","))
        for row in rows(ran.stdout):
            self.assertIn(row["status"], ("ok", "noisy"), f"{row['placement']}: {row['reason']}")
            self.assertEqual(row["verify"], "exact+random")

    def test_global_sync_runs_live(self):
        ran = pair(*CASE, "--placement", "global_sync", "--format", "csv", gpus=2)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual([row["launch_mode"] for row in rows(ran.stdout)], ["live"])

    def test_more_than_a_queue_holds(self):
        """The gate opens early, and the row says so."""
        ran = pair(*CASE, *words("--window 300ms --placement concurrent --format csv"), gpus=2)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for row in rows(ran.stdout):
            self.assertEqual((row["partial"], row["verify"]), ("1", "exact+random"))
        ran = pair(*CASE, *words("--placement concurrent --format csv"), gpus=2)
        self.assertEqual([row["partial"] for row in rows(ran.stdout)], ["0"])

    def test_every_dtype(self):
        dtypes = "f64,f32,tf32,f16,bf16,f8e4m3"
        ran = pair(*CASE, "--dtype", dtypes, "--placement", "concurrent", "--format", "csv", gpus=2, nccl="23203")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for row in rows(ran.stdout):
            self.assertIn(row["status"], ("ok", "noisy"), f"{row['dtype']}: {row['reason']}")

    def test_every_collective_and_kind_of_buffer(self):
        ran = pair(
            *CASE,
            *words("--collective all_reduce,all_gather,reduce_scatter,broadcast,all_to_all --placement concurrent"),
            *words("--buffers plain,registered,symmetric --format csv"),
            gpus=2,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(rows(ran.stdout)), 15)
        for row in rows(ran.stdout):
            self.assertIn(row["status"], ("ok", "noisy"), f"{row['collective']} {row['buffers']}: {row['reason']}")

    def test_the_same_cases_and_columns_as_on_the_host(self):
        options = [*words("--placement concurrent,serial,shared_core --ranks 2 --format csv"), *TINY]
        host = run(PAIR, *options, "--backend", "host")
        cuda = pair(*options, "--backend", "cuda", gpus=2)
        self.assertEqual(cuda.stdout.splitlines()[0], host.stdout.splitlines()[0])
        for column in ("gemm", "bytes", "collective", "placement", "dtype", "ranks"):
            self.assertEqual([r[column] for r in rows(cuda.stdout)], [r[column] for r in rows(host.stdout)])
        measured = [r for r in rows(cuda.stdout) if r["status"] in ("ok", "noisy")]
        self.assertEqual({r["verify"] for r in measured}, {"exact+random"})
        self.assertEqual(len(measured), 2)  # shared_core means nothing on a device, and the row says so

    def test_what_is_emulated_is_not_a_result(self):
        options = [word for word in CASE if word != "--allow-debug"]
        ran = pair(*options, "--out", self.out, gpus=2)
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertRegex(ran.stderr, "emulated|only written by a Release build")
        self.assertFalse(self.out.exists())


@needs_emulation
class WithoutADevice(unittest.TestCase):
    def test_no_driver(self):
        ran = pair(*CASE, driver="0")
        self.assertEqual(ran.returncode, 3, ran.stderr)
        self.assertIn("driver", ran.stderr)
        self.assertEqual(len(ran.stderr.splitlines()), 1)

    def test_auto_goes_on_without_one(self):
        options = ["auto" if word == "cuda" else word for word in CASE]
        ran = pair(*options, "--format", "csv", driver="0")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual({row["backend"] for row in rows(ran.stdout)}, {"host"})

    def test_more_ranks_than_gpus(self):
        ran = pair(*CASE, "--ranks", "3", gpus=2)
        self.assertIn(ran.returncode, (2, 3), ran.stderr)
        self.assertIn("2", ran.stderr)


@needs_emulation
class SeveralProcesses(RunTest):
    def test_one_run_directory(self):
        with processes(2, *CASE, "--out", self.out) as all_of_them:
            ends = [process.communicate(timeout=PATIENCE) for process in all_of_them]
        self.assertEqual([process.returncode for process in all_of_them], [0, 0], ends)
        self.assert_complete(cases=2)
        self.assertEqual({row["rank"] for row in table(self.out / "samples.csv")}, {"0", "1"})
        with processes(2, *CASE, "--out", self.out, "--resume") as all_of_them:
            ends = [process.communicate(timeout=PATIENCE) for process in all_of_them]
        self.assertEqual([process.returncode for process in all_of_them], [0, 0], ends)
        self.assert_complete(cases=2)

    def lose_one(self, how: signal.Signals):
        """The second of three goes away within a case, perhaps after it has enqueued and before the gates open."""
        placements = "concurrent,serial,comm_first,compute_first,event_chained,priority_comm"
        options = [*CASE, "--placement", placements, "--deadline", "3s"]
        with processes(3, *options, "--out", self.out) as all_of_them:
            for line in all_of_them[0].stderr:
                if line.startswith("[1/6]"):
                    break
            all_of_them[1].send_signal(how)
            ends = [all_of_them[i].communicate(timeout=PATIENCE) for i in (0, 2)]
            self.assertEqual([all_of_them[i].returncode for i in (0, 2)], [1, 1], ends)
        finished = [row for row in self.summary() if row["status"] in ("ok", "noisy")]
        self.assertGreaterEqual(len(finished), 1)
        self.assertLess(len(finished), 6)
        return ends[0][1]

    def test_a_process_that_is_killed(self):
        self.assertIn("process 1", self.lose_one(signal.SIGKILL))

    def test_a_process_that_stops(self):
        """Its gates never open, or its collectives never come: the deadline ends the others, and the row says who did
        not answer and where the others stood."""
        self.assertIn("process 1", self.lose_one(signal.SIGSTOP))
        for row in self.summary():
            if row["status"] != "timeout":  # it may have stopped between two cases
                continue
            self.assertIn("process 1 did not answer: what its ranks had enqueued and", row["reason"])
            for process in (0, 2):
                known = f"process {process}: (rank {process} \\S+: enqueued|in no replay|no lane had begun)"
                self.assertRegex(row["reason"], known)


@needs_emulation
class Environment(unittest.TestCase):
    def test_an_override_of_what_is_asked_for(self):
        ran = pair(*CASE, "--channels", "4", "--format", "csv", gpus=2)
        self.assertEqual({row["status"] for row in rows(ran.stdout)} - {"ok", "noisy"}, set(), ran.stdout)
        overridden = environment(2) | {"NCCL_MAX_CTAS": "8"}
        ran = run(PAIR, *CASE, "--channels", "4", "--format", "csv", env=overridden)
        for row in rows(ran.stdout):
            self.assertEqual(row["status"], "unsupported")
            self.assertIn("NCCL_MAX_CTAS", row["reason"])

    def test_the_module_needs_its_libraries(self):
        hidden = {name: value for name, value in ENVIRONMENT.items() if name != "LD_LIBRARY_PATH"}
        ran = run(PAIR, *CASE, env=hidden)
        self.assertIn(ran.returncode, (0, 3), ran.stderr)  # 0: there is a real GPU
        if ran.returncode == 3:
            self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
