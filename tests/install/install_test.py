# SPDX-License-Identifier: Apache-2.0
"""What is installed starts from wherever it is moved to, and brings its papers and the sources of the plots."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["OVL_BUILD_DIR"])


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        first, cls.prefix = Path(folder.name, "first"), Path(folder.name, "moved")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", first], check=True, stdout=subprocess.DEVNULL)
        first.rename(cls.prefix)

    def test_it_holds_programs_library_papers_and_plots(self):
        for pattern in (
            "bin/overlap-pair",
            "lib/liboverlapbench.so*",
            "share/overlapbench/README.md",
            "share/overlapbench/LICENSE",
            "share/overlapbench/plots/pyproject.toml",
        ):
            with self.subTest(pattern):
                self.assertTrue(list(self.prefix.glob(pattern)))

    def test_every_program_starts(self):
        for program in self.prefix.glob("bin/overlap-*"):
            with self.subTest(program.name):
                ran = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60)
                self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_programs_use_the_library_beside_them(self):
        libraries = subprocess.run(
            ["ldd", self.prefix / "bin/overlap-pair"], capture_output=True, text=True, check=True
        )
        self.assertIn(str(self.prefix.resolve() / "bin/../lib/liboverlapbench.so"), libraries.stdout)


if __name__ == "__main__":
    unittest.main()
