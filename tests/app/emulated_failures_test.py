# SPDX-License-Identifier: Apache-2.0
"""Every call of the cuda backend into CUDA, cuBLASLt and NCCL fails once: an error that names it, all released."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from binaries import RunTest, table, words
from emulated import CASE, VIOLATION, needs_emulation, pair

# What may be missing: the run goes on without it, and what it would have told is unknown.
OPTIONAL = ("nvml", "cupti", "cudaDriverGetVersion", "cudaGetDriverEntryPoint")
OPTIONS = [*CASE, *words("--placement concurrent,graph --buffers plain,symmetric --deadline 5s")]


@needs_emulation
class CallSites(RunTest):
    def sites(self) -> list[tuple[str, str]]:
        """Entry point and place of every call of the module that a run makes."""
        listing = self.folder / "sites"
        ran = pair(*OPTIONS, "--out", self.folder / "unharmed", gpus=2, sites=str(listing))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = [line.split() for line in listing.read_text().splitlines()]
        return sorted({(call, place) for call, _, place in lines if "overlapbench-cuda" in place})

    def fail(self, site: tuple[str, str]) -> str:
        """What is wrong with how the program takes it; empty: nothing."""
        call, place = site
        out = self.folder / f"{call}-{place}"
        ran = pair(*OPTIONS, "--out", out, gpus=2, fail=f"{call}:{place}:once")
        told = ran.stderr + "".join(row["reason"] for row in table(out / "summary.csv"))
        if ran.returncode == VIOLATION:
            return f"{site}: {ran.stderr}"
        if ran.returncode not in (0, 1, 3):
            return f"{site}: exit code {ran.returncode}: {ran.stderr}"
        if call.startswith(OPTIONAL) and ran.returncode == 0:
            return ""
        if call not in told:
            return f"{site}: the error does not name the call: exit code {ran.returncode}: {told}"
        return ""

    def test_each_fails_once(self):
        sites = self.sites()
        self.assertGreater(len(sites), 60)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = [text for text in pool.map(self.fail, sites) if text]
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(sites)} call sites")
