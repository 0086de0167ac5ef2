# SPDX-License-Identifier: Apache-2.0
"""overlap-import as a user runs it: tables, warnings that name the line, exit codes, a run directory."""

from __future__ import annotations

import hashlib
import json
import unittest
from pathlib import Path

from binaries import BUILD, RunTest, run, table

IMPORT = BUILD / "bin" / "overlap-import"

HEADER = "#       size    count   type  redop   root   time  algbw  busbw #wrong   time  algbw  busbw #wrong\n"
START = (
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 8388608 step: 2(factor)\n"
    "#  Rank  0 Group  0 Pid 1 on node01 device  0 [0000:41:00] H100\n"
    "#  Rank  1 Group  0 Pid 1 on node01 device  1 [0000:44:00] H100\n" + HEADER
)
END = "# Out of bounds values : 0 OK\n"


def row(size: int, time: float, wrong: int = 0) -> str:
    """One line of nccl-tests; two ranks, so that bus and algorithm bandwidth are equal."""
    half = f"{time:.2f} {size / time / 1e3:.2f} {size / time / 1e3:.2f} {wrong}"
    return f"  {size} {size // 4} float sum -1 {half} {half}\n"


# t = 20 us + bytes / 100 GB/s
LOG = START + "".join(row(size, 20 + size / 1e5) for size in (1 << 20, 1 << 21, 1 << 22, 1 << 23)) + END

FIT = (
    "method,segments,breakpoint_bytes,alpha_s,beta_s_per_byte,bus_bandwidth,"
    "median_relative_error,max_relative_error,points"
)
ROWS = "collective,dtype,op,bytes,ranks,in_place,seconds,algorithm_bandwidth,bus_bandwidth,wrong,status,reason,line"


class ImportTest(RunTest):
    def file(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def rows_of(self, *arguments) -> list[dict[str, str]]:
        out = self.file("out.csv", run(IMPORT, "--format", "csv", *arguments).stdout)
        return table(out)


class Output(ImportTest):
    def test_rows_have_the_documented_columns(self):
        done = run(IMPORT, self.file("log.txt", LOG), "--rows", "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], ROWS)
        self.assertEqual(len(lines), 9)
        self.assertTrue(lines[1].startswith("all_reduce,float,sum,1048576,2,0,3.049e-05,"), lines[1])
        self.assertTrue(lines[1].endswith(",0,ok,,6"), lines[1])

    def test_one_series_is_fitted_without_key_columns(self):
        sweep = "bytes,seconds\n" + "".join(f"{b},{20e-6 + b / 100e9}\n" for b in (1 << 20, 1 << 21, 1 << 22))
        done = run(IMPORT, self.file("sweep.csv", sweep), "--fit", "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], FIT)
        self.assertEqual(len(done.stdout.splitlines()), 4)

    def test_several_series_have_key_columns(self):
        rows = self.rows_of(self.file("log.txt", LOG), "--fit")
        self.assertEqual(list(rows[0])[:5], ["collective", "dtype", "op", "ranks", "in_place"])
        self.assertEqual({row["method"] for row in rows}, {"relative", "ordinary", "theil_sen"})
        self.assertEqual({row["in_place"] for row in rows}, {"0", "1"})
        for fit in rows:
            self.assertAlmostEqual(float(fit["alpha_s"]) * 1e6, 20, delta=0.05)
            self.assertAlmostEqual(float(fit["bus_bandwidth"]) / 1e9, 100, delta=0.5)

    def test_several_files_are_named(self):
        rows = self.rows_of(self.file("a.txt", LOG), self.file("b.txt", LOG), "--rows")
        self.assertEqual(len(rows), 16)
        self.assertEqual({Path(row["file"]).name for row in rows}, {"a.txt", "b.txt"})

    def test_json_has_numbers_and_nulls(self):
        done = run(IMPORT, self.file("log.txt", LOG.replace(" 0\n", " N/A\n")), "--rows", "--format", "json")
        rows = json.loads(done.stdout)
        self.assertEqual(rows[0]["bytes"], 1 << 20)
        self.assertEqual(rows[0]["wrong"], 0)
        self.assertIsNone(rows[1]["wrong"])

    def test_text_is_for_people(self):
        done = run(IMPORT, self.file("log.txt", LOG), "--fit")
        self.assertIn("log.txt (nccl-tests): 8 rows, 8 ok", done.stdout)
        self.assertIn("all_reduce float sum, 2 ranks, in place: 4 points, 1MiB to 8MiB", done.stdout)
        self.assertIn("good", done.stdout)

    def test_a_row_that_failed_its_check_is_in_no_fit(self):
        bad = LOG.replace(END, row(1 << 24, 9999.0, wrong=3) + END)
        path = self.file("log.txt", bad)
        self.assertEqual([r["status"] for r in self.rows_of(path, "--rows")], ["ok"] * 8 + ["failed_verify"] * 2)
        self.assertEqual({r["points"] for r in self.rows_of(path, "--fit")}, {"4"})

    def test_standard_input_is_a_file(self):
        done = run(IMPORT, "-", "--rows", "--format", "csv", input=LOG)
        self.assertEqual(len(done.stdout.splitlines()), 9, done.stderr)


class Oddities(ImportTest):
    def test_a_warning_names_file_and_line(self):
        path = self.file("log.txt", LOG.replace(END, ""))
        done = run(IMPORT, path)
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"{path}: line 9: no footer behind these rows", done.stderr)

    def test_the_name_of_a_file_is_a_guess_that_is_told(self):
        nameless = LOG.replace("# Collective test starting: all_reduce_perf\n", "")
        done = run(IMPORT, self.file("my_sendrecv.txt", nameless), "--rows", "--format", "csv")
        self.assertIn("sendrecv is taken from the file's name", done.stderr)
        self.assertIn("\nsendrecv,", done.stdout)
        told = run(IMPORT, self.file("log.txt", nameless), "--collective", "AllGather", "--rows", "--format", "csv")
        self.assertIn("\nall_gather,", told.stdout)

    def test_nothing_of_a_file_controls_the_terminal(self):
        evil = START + "  8 2 float sum -1 \x1b]0;title\x07\x9b2J\x01 x\n# \x1b[31mred\x08\x1bc\n" + row(1 << 20, 30.5)
        done = run(IMPORT, self.file("log.txt", evil.encode("latin-1")), "--rows", text=False)
        for byte in done.stdout + done.stderr:
            self.assertTrue(byte == 10 or 32 <= byte < 127, hex(byte))


class Refusals(ImportTest):
    def refuse(self, *arguments, text: str):
        done = run(IMPORT, *arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_file_without_a_row(self):
        self.refuse(self.file("hello", "hello\n"), text="has no row that nccl-tests would write; name another format")

    def test_a_file_without_a_time(self):
        text = START + "  8 2 float sum -1 XXX X.XX X.XX N/A XXX X.XX X.XX N/A\n" + END
        self.refuse(self.file("log", text), text='line 6: no time: "XXX" stands in its place')

    def test_a_file_of_which_every_row_failed_its_check(self):
        bad = START + row(1 << 20, 30.5, wrong=3) + END
        self.refuse(self.file("log", bad), text="log has no usable row among 2, the first in line 6: ")
        self.refuse(
            self.file("one.csv", "bytes,seconds,ranks\n8,1e-3,1\n"), text="one rank: no communication is measured"
        )

    def test_a_file_that_is_named_twice(self):
        path = self.file("log", LOG)
        self.refuse(path, path, text="log is named twice: one log is one measurement; name each log once")
        (self.folder / "link").symlink_to(path)
        self.refuse(path, self.folder / "link", "--out", self.out, text="is named twice")
        copied = run(IMPORT, path, self.file("copy", LOG), "--fit")
        self.assertEqual(copied.returncode, 0)
        self.assertIn("copy: the same bytes as", copied.stderr)

    def test_several_bad_files_are_one_line(self):
        bad = [self.file(name, "x\n") for name in ("a", "b", "c")]
        self.refuse(*bad, text="b, ")
        self.refuse(*bad, "--out", self.out, text=f"; nothing is written to {self.out}")

    def test_no_file(self):
        self.refuse(text="no file is named; type overlap-import FILE...")
        self.refuse(self.folder / "none", text="there is no file")
        self.refuse(self.folder, text="is a directory")
        self.refuse("/dev/zero", text="is a device")

    def test_words_that_are_not_known(self):
        log = self.file("log", LOG)
        self.refuse(log, "--format-name", "ncl-tests", text="did you mean nccl-tests?")
        self.refuse(log, "--collective", "all_redice", text="did you mean all_reduce?")
        self.refuse(log, "--fit", "--rows", "--format", "csv", text="--rows and --fit are two tables")

    def test_one_bad_file_keeps_the_others_on_the_screen_and_writes_nothing(self):
        good, bad = self.file("good", LOG), self.file("bad", "x\n")
        done = run(IMPORT, good, bad, "--rows", "--format", "csv")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stdout.splitlines()), 9)
        done = run(IMPORT, good, bad, "--out", self.out)
        self.assertEqual(done.returncode, 2)
        self.assertFalse(self.out.exists())


class Directory(ImportTest):
    def test_holds_rows_fits_summary_and_where_they_come_from(self):
        path = self.file("log.txt", LOG.replace(END, ""))
        done = run(IMPORT, path, "--out", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        described = json.loads((self.out / "run.json").read_text())
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        self.assertEqual(described["identity"]["source"], "imported")
        self.assertEqual(described["identity"]["files"], [{"name": "log.txt", "sha256": sha256}])
        self.assertIsNone(described["identity"]["machine"], "this machine has nothing to do with the numbers")
        (imported,) = described["imported"]
        self.assertEqual(imported["format"], "nccl-tests")
        self.assertEqual(imported["rows"]["ok"], 8)
        self.assertIn("no footer", imported["warnings"][0]["text"])
        self.assertEqual(len(table(self.out / "imported.csv")), 8)
        self.assertEqual(len(table(self.out / "fits.csv")), 6)
        summary = self.summary()
        self.assertEqual(len(summary), 8)
        self.assertEqual({row["source"] for row in summary}, {"imported"})
        self.assertAlmostEqual(float(summary[0]["t_comm"]), 30.49e-6)
        for name, columns in described["tables"].items():
            header = (self.out / f"{name}.csv").read_text().splitlines()[0]
            self.assertEqual(header.split(","), [column["name"] for column in columns["columns"]])

    def test_is_not_overwritten(self):
        path = self.file("log.txt", LOG)
        run(IMPORT, path, "--out", self.out)
        again = run(IMPORT, path, "--out", self.out)
        self.assertEqual(again.returncode, 2)
        self.assertIn("holds another run", again.stderr)
        self.assertNotIn("--resume", again.stderr, "it has no such option")
        nowhere = run(IMPORT, path, "--out", "/proc/run")
        self.assertEqual(nowhere.returncode, 1)
        self.assertNotIn("--resume", nowhere.stderr)


if __name__ == "__main__":
    unittest.main()
