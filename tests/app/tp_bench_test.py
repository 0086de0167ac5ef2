# SPDX-License-Identifier: Apache-2.0
"""overlap-tp as a user runs it: modes and tiles, sizes, and errors that say what divides."""

from __future__ import annotations

import unittest

from binaries import BUILD, QUICK, RunTest, run, table, words

TP = BUILD / "bin" / "overlap-tp"
SMALL = words("--ranks 2 --layers gpt2-small:2@16 --scale 0.02 --waiting yield")


class TpBench(RunTest):
    def test_modes_and_tiles_are_exact_and_the_sizes_are_compared(self):
        ran = run(TP, *SMALL, *QUICK, *words("--mode all_reduce,sequence --tiles 1,4"), "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(4)
        for row in self.summary():
            tokens = int(row["tokens"])
            self.assertEqual(int(row["activation_bytes"]), tokens * 16 * 4)
            self.assertEqual(int(row["reduced_bytes"]), 2 * 2 * tokens * 16 * 4, "two pairs a layer")
            self.assertEqual(row["verify"], "serial+exact+random")
            self.assertEqual(float(row["model_flops"]), 2 * 3072 * tokens * 2 / 2, "half of the layers' forward pass")
        choices = table(self.out / "choices.csv")
        self.assertEqual(len(choices), 2)
        for mode in ("all_reduce", "sequence"):
            self.assertRegex(
                ran.stdout,
                rf"\n{mode}: tiling (pays from gpt2-small:2@\d+ on|does not measurably pay at the largest size)",
            )

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            ("--tiles 0", "number of tiles 0 is not possible"),
            ("--tiles x", 'number of tiles "x" is not a number; type for example --tiles 1,2,4'),
            ("--tiles 3 --layers gpt2-small:2@128", "128 tokens do not divide by 3 tiles"),
            ("--ranks 5 --layers gpt2-small:2@128", "do not divide by 5 ranks"),
            ("--mode reduce", 'tensor parallel mode "reduce" is unknown'),
            ("--layers gpt2-small", 'layers "gpt2-small" do not say how many'),
        ):
            ran = run(TP, *words(arguments), "--list")
            self.assertEqual(ran.returncode, 2, arguments)
            self.assertEqual(ran.stdout, "")
            self.assertIn(message, ran.stderr)


if __name__ == "__main__":
    unittest.main()
