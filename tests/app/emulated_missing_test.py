# SPDX-License-Identifier: Apache-2.0
"""Machines that lack one of CUDA's libraries, whatever this one has: the loader finds none of that name."""

from __future__ import annotations

import unittest

from binaries import BUILD, ENVIRONMENT, PAIR, TINY, run, words
from emulated import CASE, LIBRARIES, environment, needs_emulation, rows

HIDE = BUILD / "tests" / "modules" / "ovl_hide_library.so"


def without(library: str, settings: dict[str, str]) -> dict[str, str]:
    options = settings.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # which cannot read an audited loader's memory
    return settings | {"LD_AUDIT": str(HIDE), "OVL_HIDDEN_LIBRARY": library, "ASAN_OPTIONS": options}


def file_of(stem: str) -> str:
    """The name that programs link, with its version: libcudart.so.13."""
    (found,) = {path.name for path in LIBRARIES.glob(f"lib{stem}.so.*") if path.name.count(".") == 2}
    return found


@needs_emulation
class Missing(unittest.TestCase):
    def test_one_that_the_module_links(self):
        for stem in ("cudart", "cublasLt", "nccl"):
            with self.subTest(stem):
                library = file_of(stem)
                ran = run(PAIR, *CASE, env=without(library, environment(2)))
                self.assertEqual((ran.returncode, ran.stdout), (3, ""), ran.stderr)
                self.assertRegex(
                    ran.stderr,
                    rf"^overlap-pair: backend \"cuda\" cannot run here: cuda: its module cannot be loaded: "
                    rf"{library} is missing; ",
                )
                self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
                host = run(PAIR, *TINY, *words("--backend host --list"), env=without(library, environment(2)))
                self.assertEqual((host.returncode, host.stderr), (0, ""))

    def test_the_host_runs_without_any(self):
        ran = run(PAIR, *TINY, *words("--backend host --format csv"), env=without(file_of("cudart"), environment(2)))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual({row["backend"] for row in rows(ran.stdout)}, {"host"})

    def test_the_drivers(self):
        """As CUDA's own runtime library finds it: not the emulated one."""
        ran = run(PAIR, *CASE, env=without("libcuda.so.1", ENVIRONMENT))
        self.assertEqual((ran.returncode, ran.stdout), (3, ""), ran.stderr)
        self.assertIn("no driver: libcuda.so.1 is missing or cannot be loaded", ran.stderr)
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)

    def test_one_that_only_tells_more(self):
        for stem in ("cupti", "nvidia-ml"):
            with self.subTest(stem):
                env = without(file_of(stem), environment(2))
                ran = run(PAIR, *CASE, *words("--placement event_chained --format csv"), env=env)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                (row,) = rows(ran.stdout)
                self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
                seen = "unverified" if stem == "cupti" else "compute_first"
                self.assertEqual(row["launch_order"], seen)


if __name__ == "__main__":
    unittest.main()
