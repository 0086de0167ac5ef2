# SPDX-License-Identifier: Apache-2.0
"""What contends on one emulated GPU: kernels that hold SMs and stream, the ring proxy, two ranks that share the GPU."""

from __future__ import annotations

import re
import tempfile
import unittest
from pathlib import Path

from binaries import BUILD, PAIR, QUICK, run, words
from emulated import CASE, environment, needs_emulation, pair, rows

CONTENTION = BUILD / "bin" / "overlap-contention"


@needs_emulation
class Proxy(unittest.TestCase):
    def test_every_row_says_what_it_is(self):
        ran = pair(
            *CASE,
            *words("--transport proxy:2GB/s --channels 3 --collective all_reduce,all_gather"),
            *words("--placement concurrent --format csv"),
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(rows(ran.stdout)), 2)
        for row in rows(ran.stdout):
            self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
            self.assertEqual((row["transport"], row["comm_path"]), ("proxy:2GB/s", "proxy"))
            self.assertEqual((row["channels_asked"], row["channels_observed"]), ("3", "3"))
            self.assertEqual(row["verify"], "exact+random")

    def test_what_it_cannot_be(self):
        for channels, reason in (("0", "the proxy needs a number of CTAs"), ("9", "the device has 8")):
            ran = pair(*CASE, *words(f"--transport proxy --channels {channels} --format csv"), sms="8")
            for row in rows(ran.stdout):
                self.assertEqual((row["status"], row["transport"]), ("unsupported", "proxy"))
                self.assertIn(reason, row["reason"])
        ran = pair(*CASE, *words("--transport proxy:fast --channels 1"))
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertIn('transport "proxy:fast" names no rate of a link', ran.stderr)


@needs_emulation
class Bench(unittest.TestCase):
    def test_what_holds_sms_until_its_victim_is_done(self):
        ran = pair(
            *words("--backend cuda --victim gemm:32x32x32 --aggressor occupy:3,occupy:8,stream:max@64KiB"),
            *words("--workers 2 --format csv"),
            *QUICK,
            program=CONTENTION,
            sms="8",
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        held, all_held, streamed = rows(ran.stdout)
        for row in (held, streamed):
            self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
        self.assertIn("kernels that contend on SMs 0-2", held["layout"])
        self.assertNotEqual(streamed["pace_loaded"], "")
        self.assertEqual(all_held["status"], "unsupported")
        self.assertIn("8 of 8 SMs held until an event leave too few for the 1", all_held["reason"])


TWO_RANKS = [*CASE, *words("--ranks 2 --channels 4 --placement concurrent --format csv")]


@needs_emulation
class Connections(unittest.TestCase):
    """What CUDA reads once in a process takes a process each, whose rows meet in one table."""

    LINE = words("--backend cuda --victim gemm:32x32x32 --aggressor occupy:3 --connections default,1,8 --format csv")

    def test_each_row_says_what_its_process_ran_with(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        env = environment(1, sms="8") | {"TMPDIR": scratch.name}
        env.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        ran = run(CONTENTION, *self.LINE, *QUICK, env=env)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = {re.search(r"connections=(\w+)", row["key"])[1]: row for row in rows(ran.stdout)}
        self.assertEqual(
            {asked: row["device_connections"] for asked, row in found.items()}, {"default": "", "1": "1", "8": "8"}
        )
        for row in found.values():
            self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
        self.assertIn("launch #0 of 1 with CUDA_DEVICE_MAX_CONNECTIONS=8", ran.stderr)
        self.assertEqual(list(Path(scratch.name).iterdir()), [], "what the processes shared is gone")

    def test_finished_ones_are_not_measured_again(self):
        with tempfile.TemporaryDirectory() as folder:
            out = ["--out", str(Path(folder) / "run")]
            for more in ([], ["--resume"]):
                ran = run(CONTENTION, *self.LINE, *QUICK, *out, *more, env=environment(1, sms="8"))
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertEqual(len(rows(ran.stdout)), 3)
            self.assertIn("1 of 1 cases are finished already", ran.stderr)


@needs_emulation
class SharedGpu(unittest.TestCase):
    def test_two_ranks_on_one(self):
        opted_in = environment(1, nccl="23203") | {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        ran = run(PAIR, *TWO_RANKS, env=opted_in)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for row in rows(ran.stdout):
            self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
            self.assertEqual((row["transport"], row["ranks"]), ("nccl-shared-gpu", "2"))
            self.assertIn("two ranks on a GPU (experimental)", row["layout"])

    def test_only_where_nccl_can_and_is_told_to(self):
        for nccl, setting in (("22809", "1"), ("23203", "0")):
            ran = run(PAIR, *TWO_RANKS, env=environment(1, nccl=nccl) | {"NCCL_MULTI_RANK_GPU_ENABLE": setting})
            self.assertEqual(ran.returncode, 3, ran.stderr)
            self.assertIn("NCCL refuses two ranks on one GPU", ran.stderr)


@needs_emulation
class Overrides(unittest.TestCase):
    def test_ctas_set_from_outside(self):
        for name in ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"):
            ran = run(PAIR, *CASE, *words("--channels 4 --format csv"), env=environment(2) | {name: "8"})
            for row in rows(ran.stdout):
                self.assertEqual(row["status"], "unsupported")
                self.assertIn(f"{name}=8 (environment) would silently override", row["reason"])
