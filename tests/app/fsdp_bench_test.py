# SPDX-License-Identifier: Apache-2.0
"""overlap-fsdp as a user runs it: depths, slots and memory, the knee, and errors that say what fits."""

from __future__ import annotations

import unittest

from binaries import BUILD, QUICK, RunTest, run, table, words
from emulated import rows

FSDP = BUILD / "bin" / "overlap-fsdp"
# 16 wide: 3280 parameters a layer, 13120 bytes, as in the test of overlap-ddp.
SMALL = words("--ranks 2 --layers gpt2-small:3@8 --scale 0.02 --waiting yield")
LAYER = 3280 * 4


class FsdpBench(RunTest):
    def test_depths_cost_slots_and_every_result_is_exact(self):
        ran = run(FSDP, *SMALL, *QUICK, *words("--prefetch 0,2 --communicators two,one"), "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(4)
        for row in self.summary():
            self.assertEqual(row["slots"], {"0": "1", "2": "3"}[row["prefetch"]])
            self.assertEqual(int(row["gathered_memory"]), LAYER * int(row["slots"]))
            self.assertEqual(row["verify"], "serial+exact+random")
            self.assertEqual(float(row["model_flops"]), 3 * 3072 * 8 * 6)
            self.assertNotEqual(row["t_tail"], "")
        choices = table(self.out / "choices.csv")
        self.assertEqual(
            [c["option"] for c in choices], ["prefetch", "prefetch"], "one for each number of communicators"
        )
        for choice in choices:
            self.assertIn(choice["recommended"], ("0", "2"))
            self.assertEqual(choice["reference"], "0")
        self.assertIn("Recommended:", ran.stdout)

    def test_in_flight_limits_the_slots(self):
        ran = run(FSDP, *SMALL, *QUICK, *words("--prefetch 2 --in-flight 2 --format csv"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        (row,) = rows(ran.stdout)
        self.assertEqual((row["slots"], row["in_flight"]), ("2", "2"))

    def test_a_depth_that_does_not_fit_says_how_much_it_needs(self):
        ran = run(FSDP, *SMALL, *words("--prefetch 0,2 --memory 128KiB --list"))
        self.assertEqual(ran.returncode, 2)
        # 100128 bytes, of which activations 10752, scratch 4096, shards 59040 and gradients 26240, and a slot each.
        self.assertEqual(
            ran.stderr,
            f"overlap-fsdp: prefetch depth 2 needs {100128 + 3 * LAYER} a rank: there is 128KiB, and each gathered "
            "layer takes 13120; type --prefetch 1\n",
        )

    def test_of_the_usual_depths_those_are_taken_that_there_are_layers_for(self):
        ran = run(FSDP, *SMALL, "--list")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(
            [name.split("/")[3] for name in ran.stdout.splitlines()], ["prefetch0", "prefetch1", "prefetch2"]
        )

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            ("--layers gpt2-small:3@8 --prefetch 1,3", "prefetch depth 3 of 3 layers"),
            ("--layers gpt2-small:3@8 --prefetch 7", "type --prefetch 2 at most"),
            ("--prefetch -1", "prefetch depth -1 is not possible"),
            ("--prefetch two", 'prefetch depth "two" is not a number; type for example --prefetch 0,1,2'),
            ("--in-flight -2", "in-flight limit -2 is not possible"),
            ("--communicators three", 'communicators "three" is unknown'),
            ("--memory 1M", 'size "1M" is ambiguous'),
            ("--dtype f8e4m3", "weights of f8e4m3 are not possible"),
        ):
            ran = run(FSDP, *words(arguments), "--list")
            self.assertEqual(ran.returncode, 2, arguments)
            self.assertEqual(ran.stdout, "")
            self.assertIn(message, ran.stderr)


if __name__ == "__main__":
    unittest.main()
