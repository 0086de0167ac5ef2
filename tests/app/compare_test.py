# SPDX-License-Identifier: Apache-2.0
"""overlap-compare and overlap-machine as a user runs them: two logs, what became of them, exit codes, a description."""

from __future__ import annotations

import csv
import hashlib
import json
import unittest
from pathlib import Path

from binaries import BUILD, RunTest, run

IMPORT = BUILD / "bin" / "overlap-import"
COMPARE = BUILD / "bin" / "overlap-compare"
MACHINE = BUILD / "bin" / "overlap-machine"

SIZES = [1 << exponent for exponent in range(10, 24, 2)]


def log(alpha_us: float, rate_gb: float, sizes: list[int] = SIZES) -> str:
    """all_reduce on 2 ranks: alpha + bytes / rate."""
    head = (
        "# Collective test starting: all_reduce_perf\n"
        "#  Rank  0 Group  0 Pid 1 on node01 device  0 [0000:41:00] H100\n"
        "#  Rank  1 Group  0 Pid 1 on node01 device  1 [0000:44:00] H100\n"
        "#       size    count   type  redop   root   time  algbw  busbw #wrong   time  algbw  busbw #wrong\n"
    )
    rows = []
    for size in sizes:
        time = alpha_us + size / rate_gb / 1e3
        half = f"{time:.3f} {size / time / 1e3:.4f} {size / time / 1e3:.4f} 0"
        rows.append(f"  {size} {size // 4} float sum -1 {half} {half}\n")
    return head + "".join(rows) + "# Out of bounds values : 0 OK\n"


class CompareTest(RunTest):
    def imported(self, name: str, text: str) -> Path:
        file = self.folder / f"{name}.log"
        file.write_text(text)
        out = self.folder / name
        done = run(IMPORT, file, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def setUp(self):
        super().setUp()
        self.a = self.imported("a", log(20, 100))
        self.b = self.imported("b", log(30, 100))


class Compare(CompareTest):
    def test_text_tells_differences_quantities_and_words(self):
        done = run(COMPARE, self.a, self.b)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for fact in (
            "2 runs, compared with A:",
            "import, imported, ",
            "14 cases in all of them.",
            "all_reduce f32 sum, 2 ranks, in place",
            "alpha",
            "1.500",
            "B against A: ",
            "slower: alpha of all_reduce f32 sum, 2 ranks, in place is 1.500 times that of A",
            "have no interval: single numbers or fits are compared",
            "unclear: it lies on both sides of it",
        ):
            self.assertIn(fact, done.stdout)

    def test_csv_has_one_row_a_quantity(self):
        done = run(COMPARE, self.a, self.b, "--format", "csv")
        rows = list(csv.DictReader(done.stdout.splitlines()))
        by = {
            (row["quantity"], "in_place=1" in row["case"]): row for row in rows if row["quantity"] in ("alpha", "beta")
        }
        self.assertEqual(by["alpha", True]["verdict"], "slower")
        self.assertEqual(by["beta", True]["verdict"], "same")
        self.assertAlmostEqual(float(by["alpha", False]["ratio"]), 1.5, delta=1e-3)
        self.assertEqual({row["basis"] for row in rows}, {"fit", "points"})
        self.assertEqual({row["source"] for row in rows}, {"imported"})
        self.assertEqual(len([row for row in rows if row["quantity"] == "t_comm"]), 14)

    def test_json_holds_all_of_it(self):
        document = json.loads(run(COMPARE, self.a, self.b, "--format", "json").stdout)
        self.assertEqual(document["cases"], 14)
        self.assertEqual([entry["only_here"] for entry in document["runs"]], [[], []])
        self.assertEqual(document["comparison"][0]["quantity"], "alpha")

    def test_ci_fails_when_something_is_slower(self):
        slower = run(COMPARE, self.a, self.b, "--fail-if-slower", "5%")
        self.assertEqual(slower.returncode, 1)
        self.assertIn("slower by more than 5 %: alpha of all_reduce f32 sum, 2 ranks, in place is 1.500", slower.stderr)
        self.assertIn("unclear, which is not slower", slower.stderr)
        told = [line for line in (slower.stdout + slower.stderr).splitlines() if " times that of A" in line]
        self.assertEqual(len(told), len(set(told)))
        self.assertEqual(len([line for line in told if "alpha of" in line and "in place" in line]), 1, told)
        self.assertNotIn("bus_bandwidth of", slower.stderr, "a bandwidth is its time again")
        self.assertRegex(slower.stdout, r"slower: \d+ beyond --fail-if-slower, named below")
        self.assertEqual(run(COMPARE, self.b, self.a, "--fail-if-slower", "5%").returncode, 0)
        self.assertEqual(run(COMPARE, self.a, self.b, "--fail-if-slower", "60%").returncode, 0)

    def test_the_margin_decides_what_is_the_same(self):
        done = run(COMPARE, self.a, self.b, "--margin", "60%")
        self.assertIn("0 faster, 0 slower", done.stdout)


class CompareRefuses(CompareTest):
    def refuse(self, *arguments, text: str):
        done = run(COMPARE, *arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1), done.stderr)

    def test_what_cannot_be_compared(self):
        self.refuse(self.a, text="fewer than two runs are named; type overlap-compare A B")
        self.refuse(self.a, self.folder / "a.log", text="is not a run directory: it is a file")
        self.refuse(self.a, self.folder, text="it has no run.json")
        other = self.imported("other", log(20, 100, [3 << 20, 5 << 20]))
        self.refuse(self.a, other, text="have no case in common: bytes is ")
        described = json.loads((self.b / "run.json").read_text())
        described["tables"]["summary"]["version"] = 99
        (self.b / "run.json").write_text(json.dumps(described))
        self.refuse(self.a, self.b, text="its schema has version 99: this build reads versions 1 to 2")

    def test_percentages_are_not_guessed(self):
        for text in ("5", "0.05", "%", "-5%", "5 %", "nan%"):
            self.refuse(self.a, self.b, "--fail-if-slower", text, text="is not a percentage above 0% and at most 1000%")


class Machine(CompareTest):
    def test_a_log_becomes_a_description(self):
        out = self.folder / "my-fabric.json"
        done = run(
            MACHINE, self.a, "--out", out, "--fabric", "a fabric", "--device", "H100", "--source", "example.org/a.log",
            "--rate", "memory=3.35e12", "--rates-source", "a data sheet",
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("my-fabric: a fabric, H100", done.stdout)
        self.assertIn("memory: 3.35e+12 B/s; published: a data sheet", done.stdout)
        document = json.loads(out.read_text())
        self.assertEqual((document["format"], document["version"]), ("overlapbench machine", 1))
        log_origin, rates_origin = document["origins"]
        self.assertEqual(log_origin["sha256"], hashlib.sha256((self.folder / "a.log").read_bytes()).hexdigest())
        self.assertEqual((log_origin["kind"], log_origin["file"]), ("imported", "a.log"))
        self.assertEqual(rates_origin["kind"], "published")
        self.assertEqual(len(document["collectives"]), 2)
        cost = document["collectives"][0]
        self.assertAlmostEqual(cost["segments"][0]["alpha_s"] * 1e6, 20, delta=0.01)
        self.assertAlmostEqual(cost["segments"][0]["beta_s_per_byte"] * 1e12, 10, delta=0.01)
        self.assertEqual([size for size, _ in cost["points"]], SIZES)
        self.assertLess(cost["max_relative_error"], 0.001)
        checked = run(MACHINE, "--check", out)
        self.assertEqual((checked.returncode, checked.stdout), (0, done.stdout))

    def test_rates_are_a_list_and_a_source_is_typed_for_each_run(self):
        out = self.folder / "m.json"
        done = run(
            MACHINE, self.a, self.b, "--out", out, "--rate", "memory=3e12,link=450e9", "--rates-source", "a sheet",
            "--source", "A, page 1", "--source", "B",
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        document = json.loads(out.read_text())
        self.assertEqual([rate["name"] for rate in document["rates"]], ["memory", "link"])
        self.assertEqual([origin["source"] for origin in document["origins"]], ["A, page 1", "B", "a sheet"])

    def test_published_rates_are_a_description_without_a_run(self):
        out = self.folder / "a-node.json"
        done = run(
            MACHINE, "--out", out, "--fabric", "a fabric", "--device", "H100", "--rate", "memory=3e12,link=450e9",
            "--rates-source", "a sheet", "--rate", "network=50e9", "--rates-source", "another, page 1",
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        document = json.loads(out.read_text())
        self.assertEqual(
            [(rate["name"], rate["origin"]) for rate in document["rates"]],
            [("memory", "rates"), ("link", "rates"), ("network", "rates2")],
        )
        self.assertEqual([origin["source"] for origin in document["origins"]], ["a sheet", "another, page 1"])
        self.assertEqual(run(MACHINE, "--check", out).stdout, done.stdout)
        few = run(MACHINE, "--out", self.folder / "b.json", "--rate", "memory=3e12", "--rate", "link=1e9",
                  "--rates-source", "a sheet")  # fmt: skip
        self.assertEqual(few.returncode, 2)
        self.assertIn("give both, one source for each list of rates", few.stderr)

    def test_where_nothing_can_be_written_no_resume_is_advised(self):
        done = run(MACHINE, self.a, "--out", "/proc/m.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot create /proc/m.json", done.stderr)
        self.assertNotIn("--resume", done.stderr)

    def test_the_same_runs_give_the_same_bytes(self):
        for name in ("one", "two"):
            (self.folder / name).mkdir()
            run(MACHINE, self.a, self.b, "--name", "x", "--out", self.folder / name / "m.json")
        texts = [(self.folder / name / "m.json").read_bytes() for name in ("one", "two")]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual({o["id"] for o in json.loads(texts[0])["origins"]}, {"run1", "run2"})

    def test_refusals(self):
        def refuse(*arguments, text: str):
            done = run(MACHINE, *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)

        out = self.folder / "x.json"
        refuse(text="no run is named")
        refuse(self.a, text="--out is missing; type overlap-machine RUN... --out NAME.json")
        refuse(self.a, "--out", out, "--rate", "memory=1e12", text="--rate and --rates-source go together")
        refuse(self.a, "--out", out, "--rate", "memory", "--rates-source", "x", text='"memory" is not NAME=NUMBER')
        refuse(self.a, "--out", out, "--rate", "memry=1e12", "--rates-source", "x", text="memory")
        refuse(self.a, "--out", self.folder / "No Name.json", text="name is no name")
        refuse(self.a, "--out", self.folder / "x.txt", text="x.txt is no .json file: a description is one")
        refuse("--check", self.a, "--out", out, text="--out does not go with --check")
        # What is typed is checked before a run is read.
        for typed, text in (
            (["--rate", "memry=1e12", "--rates-source", "x"], '"memry" is unknown'),
            (["--rate", "memory=1e12"], "--rate and --rates-source go together"),
            (["--name", "No Name"], "name is no name"),
            (["--fabric", "x" * 401], "fabric has more than 400 characters"),
        ):
            refuse(self.folder / "no run", "--out", out, *typed, text=text)
        few = self.imported("few", log(20, 100, SIZES[:3]))
        refuse(few, "--out", out, text="left out, fewer than four sizes")
        out.write_text('{"format": "overlapbench machine", "version": 1, "name": "x", "origns": []}')
        refuse(self.a, "--out", out, text="x.json is there already: it is not overwritten; name another, or remove it")
        refuse("--check", out, text="x.json: origns is no field of a machine description; did you mean origins?")


if __name__ == "__main__":
    unittest.main()
