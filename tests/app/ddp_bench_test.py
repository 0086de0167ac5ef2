# SPDX-License-Identifier: Apache-2.0
"""overlap-ddp as a user runs it: names, errors, and a few small steps measured and verified."""

from __future__ import annotations

import unittest

from binaries import BUILD, QUICK, RunTest, run, table, words
from emulated import rows

DDP = BUILD / "bin" / "overlap-ddp"
SMALL = words("--ranks 2 --layers gpt2-small:2@8 --scale 0.02 --waiting yield")


class DdpBench(RunTest):
    def test_list_is_the_product_of_the_axes(self):
        ran = run(DDP, *SMALL, "--bucket", "tensor,1KiB:4KiB:x4,all", "--list")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(
            ran.stdout.splitlines(),
            [
                f"ddp/gpt2-small:2@8/s0.02/{bucket}/first_auto/last_none/f32/concurrent/yield/c0/plain"
                for bucket in ("tensor", "1KiB", "4KiB", "all")
            ],
        )

    def test_buckets_from_one_a_tensor_to_one_for_all(self):
        ran = run(DDP, *SMALL, *QUICK, "--bucket", "tensor,4KiB,25MiB", "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(3)
        rows = {row["bucket"]: row for row in self.summary()}
        # 16 wide, inner width 64, qkv 48: twelve tensors a layer with 48 · 16 + 48 + 16 · 16 + 16 + 64 · 16 + 64 +
        # 64 · 16 + 16 + 4 · 16 = 3280 elements.
        self.assertEqual([rows[b]["buckets"] for b in ("tensor", "4KiB", "25MiB")], ["24", "7", "1"])
        for row in rows.values():
            self.assertEqual(row["gradient_bytes"], str(2 * 3280 * 4))
            self.assertEqual(row["verify"], "serial+exact+random")
            # Backward: two layers of 3072 weights, 8 tokens, 4 FLOPs for each.
            self.assertEqual(float(row["model_flops"]), 2 * 3072 * 8 * 4)
            self.assertEqual(row["hardware_flops"], row["model_flops"])
            for column in ("t_tail", "t_tail_low", "t_tail_high", "t_alone", "t_launch", "t_event_wait", "t_gap"):
                self.assertNotEqual(row[column], "", column)
        self.assertEqual(rows["25MiB"]["tail_bucket"], rows["25MiB"]["gradient_bytes"])
        self.assert_every_bucket_is_told(rows)
        self.assert_recommends(ran.stdout)

    def assert_every_bucket_is_told(self, rows: dict[str, dict[str, str]]):
        operations = table(self.out / "operations.csv")
        for name, row in rows.items():
            reduced = [
                op
                for op in operations
                if op["key"] == row["key"] and (op["arm"], op["replay"], op["rank"]) == ("overlapped", "0", "0")
                if op["kind"] == "all_reduce" and int(op["nth"]) < int(row["buckets"])
            ]
            self.assertEqual([int(op["nth"]) for op in reduced], list(range(int(row["buckets"]))), name)
            self.assertEqual(sum(int(op["bytes"]) for op in reduced), int(row["gradient_bytes"]))
            for op in reduced:
                eligible, ready, start, end, proceeded = (
                    float(op[c]) for c in ("eligible", "ready", "start", "end", "proceeded")
                )
                self.assertLessEqual(eligible, ready, "its lane may be busy still")
                self.assertLessEqual(ready, start)
                self.assertLessEqual(start, end)
                self.assertLessEqual(end, proceeded, "the optimizer waits for its bucket")
                self.assertEqual(op["start_source"], "worker")

    def assert_recommends(self, text: str):
        (choice,) = table(self.out / "choices.csv")
        self.assertEqual((choice["option"], choice["values"], choice["reference"]), ("bucket", "3", "25MiB"))
        self.assertIn(choice["recommended"], ("tensor", "4KiB", "25MiB"))
        self.assertNotIn("bucket=", choice["series"])
        self.assertIn("Recommended:\n  bucket " + choice["recommended"], text)
        self.assertIn("closed form", text)

    def test_a_first_and_a_last_bucket_of_their_own(self):
        ran = run(DDP, *SMALL, *words("--bucket all --first-bucket 1KiB --last-bucket 2KiB --format csv"), *QUICK)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        (row,) = rows(ran.stdout)
        self.assertEqual((row["buckets"], row["first_bucket"], row["last_bucket"]), ("3", "1KiB", "2KiB"))

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            ("--layers gpt2-small", 'layers "gpt2-small" do not say how many'),
            ("--scale 2", "scale 2 is not possible"),
            ("--scale x", 'scale "x" is not a number'),
            ("--dtype f8e4m3", "gradients of f8e4m3 are not possible"),
            ("--bucket 1M", "1M"),
            ("--first-bucket 0", 'size "0" is not positive'),
        ):
            ran = run(DDP, *words(arguments), "--list")
            self.assertEqual(ran.returncode, 2, arguments)
            self.assertIn(message, ran.stderr)


if __name__ == "__main__":
    unittest.main()
