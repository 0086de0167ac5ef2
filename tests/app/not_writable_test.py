# SPDX-License-Identifier: Apache-2.0
"""A full disk, no permission, a reader that has gone: one clear line, and what is finished is kept."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import unittest
from pathlib import Path

from binaries import (
    ENVIRONMENT,
    FOUR,
    PAIR,
    PATIENCE,
    SELFCHECK,
    TINY,
    TWO,
    RunTest,
    run,
    start,
    table,
    wait_for,
    words,
)


class NotWritable(RunTest):
    def test_a_full_disk_keeps_what_is_finished(self):
        """A limit of the size of files stands for the disk: the first case fits, the second does not."""
        # More bytes of samples than in any other file, however slowly they come.
        many = [*TINY, *words("--min-samples 100 --max-samples 100 --max-time 2min"), "--out", self.out]
        self.assertEqual(run(PAIR, *many, "--placement", "serial").returncode, 0)
        kept = self.summary()
        limit = (self.out / "samples.csv").stat().st_size + 1000
        both = [*many, *TWO, "--resume"]
        ran = run(PAIR, *both, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertRegex(
            ran.stderr.splitlines()[-1],
            r"\Aoverlap-pair: cannot write \S+/(samples\.csv|operations\.csv|run\.json): File too large; "
            r"make room and type the same",
        )
        self.assertEqual(self.summary(), kept)
        self.assertEqual(
            len(table(self.out / "samples.csv")), len((self.out / "samples.csv").read_text().splitlines()) - 1
        )
        self.assertEqual(run(PAIR, *both).returncode, 0)
        self.assert_complete(cases=2)

    def test_a_place_where_nothing_can_be_written(self):
        ran = run(PAIR, *TINY, "--out", "/proc/overlap-run")
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(
            ran.stderr, r"\Aoverlap-pair: cannot create /proc/overlap-run: .+; name a directory [^\n]+\n\Z"
        )

    def test_a_directory_that_another_process_writes(self):
        first = start(*TINY, *FOUR, "--out", self.out)
        wait_for(first, "[1/4]")
        ran = run(PAIR, *TINY, *FOUR, "--out", self.out, "--resume")
        self.assertEqual(ran.returncode, 1)
        self.assertIn(f"process {first.pid} holds the lock", ran.stderr)
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=PATIENCE)

    def test_output_that_cannot_be_written_is_an_error_of_a_complete_run(self):
        with Path("/dev/full").open("w") as full:
            ran = run(PAIR, *TINY, *TWO, "--out", self.out, stdout=full, stderr=subprocess.PIPE, capture_output=False)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr.splitlines()[-1], r"\Aoverlap-pair: cannot write to standard output")
        self.assert_complete(cases=2)

    def test_readers_that_have_gone_do_not_end_a_run(self):
        for stream in ("stdout", "stderr"):
            with self.subTest(stream):
                self.out = self.folder / stream
                reader, writer = os.pipe()
                os.close(reader)
                other = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | {stream: writer}
                ran = run(PAIR, *TINY, *TWO, "--out", self.out, capture_output=False, **other)
                os.close(writer)
                self.assertEqual(ran.returncode, 1 if stream == "stdout" else 0)
                self.assert_complete(cases=2)

    def test_closed_standard_streams_are_not_taken_for_tables(self):
        command = 'exec "$0" "$@" <&- >&- 2>&-'
        ran = subprocess.run(
            ["sh", "-c", command, PAIR, *TINY, *TWO, "--out", self.out], env=ENVIRONMENT, timeout=PATIENCE
        )
        self.assertEqual(ran.returncode, 1, "what it would have printed is lost")
        self.assert_complete(cases=2)

    def test_a_closed_standard_output_is_an_error_of_a_complete_run(self):
        for program, arguments in ((PAIR, [*TINY, *TWO, "--out", self.out]), (SELFCHECK, ["--help"])):
            with self.subTest(program.name):
                command = ["sh", "-c", 'exec "$0" "$@" >&-', program, *arguments]
                ran = subprocess.run(command, env=ENVIRONMENT, timeout=PATIENCE, stderr=subprocess.PIPE, text=True)
                self.assertEqual(ran.returncode, 1, ran.stderr)
                last = ran.stderr.splitlines()[-1]
                self.assertRegex(last, rf"\A{program.name}: cannot write to standard output: it is closed")
        self.assert_complete(cases=2)

    def test_a_benchmark_file_that_cannot_be_written_is_an_error_of_a_complete_run(self):
        ran = run(PAIR, *TINY, *TWO, "--benchmark_out=/dev/full", "--out", self.out)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr.splitlines()[-1], r"\Aoverlap-pair: cannot write --benchmark_out=/dev/full")
        self.assertIn("In words:", ran.stdout)
        self.assert_complete(cases=2)


if __name__ == "__main__":
    unittest.main()
