# SPDX-License-Identifier: Apache-2.0
"""Run directories, logs and descriptions that somebody else made: nothing in them commands a terminal, leads out of
their directory, is waited for, or ends a program otherwise than in one line."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import unittest
from pathlib import Path

from binaries import BUILD, ENVIRONMENT, PAIR, PATIENCE, TINY, TWO, RunTest, run, table, words

BIN = BUILD / "bin"
COMMANDS = "\x1b[2J\x1b]0;owned\x07\r\x7f\x9b31m"  # clear the screen, name the window, overwrite the line, red
COLUMNS = (
    "key:text launch:integer status:text reason:text source:text transport:text placement:text gemm:text "
    "collective:text dtype:text ranks:integer in_place:integer bytes:integer m:integer n:integer k:integer "
    "gemm_repeat:integer rounds:integer t_compute:real t_comm:real t_step:real t_loaded:real victim:text "
    "aggressor:text victim_slowdown:real"
)
SIZES = (1024, 4096, 16384, 65536)


def wrote(folder: Path, bench: str, label: str, rows: int = 4) -> Path:
    """A run directory in which every text has that label."""
    columns = [word.split(":") for word in COLUMNS.split()]
    about = {
        "identity": {
            "bench": bench,
            "machine": {"cpu": label, label: label},
            "backend": {"name": label, "device": label},
            "build": {"version": label},
        },
        "run": {"date": label},
        "tables": {"summary": {"version": 1, "columns": [{"name": n, "type": t} for n, t in columns]}},
    }
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(about))
    lines = [",".join(name for name, _ in columns)]
    for size in SIZES[:rows]:
        cells = {
            "launch": 0,
            "status": "ok",
            "ranks": 8,
            "in_place": 0,
            "bytes": size,
            "rounds": 9,
            "victim_slowdown": 1.5,
        }
        cells |= {"m": 8, "n": 8, "k": 8, "gemm_repeat": 1, "key": f"{bench} bytes={size} x={label}"}
        cells |= {"t_compute": 1e-4, "t_comm": 1e-5 + size * 1e-10, "t_step": 2e-4, "t_loaded": 2e-5 + size * 1e-10}
        cells |= {"collective": "all_reduce", "dtype": "f32"} if bench == "pair" else {}
        texts = {name: f'"{label}"' for name, kind in columns if kind == "text"}
        cells = texts | {name: f'"{value}"' for name, value in cells.items()}
        lines.append(",".join(str(cells[name]) for name, _ in columns))
    (folder / "summary.csv").write_text("\n".join(lines) + "\n", newline="")
    return folder


class Terminal(RunTest):
    def assert_harmless(self, ran: subprocess.CompletedProcess[bytes]):
        said = ran.stdout + ran.stderr
        self.assertIn(ran.returncode, (0, 1, 2, 3), said)
        self.assertTrue(said)
        self.assertNotIn(b"is a defect of overlapbench", said)
        for text in said.decode("utf-8"):
            self.assertTrue(text == "\n" or not (ord(text) < 0x20 or 0x7F <= ord(text) < 0xA0), said)
        if ran.returncode in (2, 3):
            self.assertEqual(ran.stderr.count(b"\noverlap-") + ran.stderr.startswith(b"overlap-"), 1, ran.stderr)

    def both(self, bench: str, label: str) -> list[Path]:
        return [wrote(self.folder / f"{bench} {name}", bench, label) for name in "ab"]

    def test_runs_of_others_command_nothing(self):
        runs = {bench: self.both(bench, COMMANDS) for bench in ("collective", "contention", "pair", "import")}
        for bench, (a, b) in runs.items():
            for number, command in enumerate(
                (
                    ["compare", a, b],
                    *(["compare", a, b, "--format", kind] for kind in ("csv", "json")),
                    ["compare", a, b, "--fail-if-slower", "1%"],
                    ["machine", a, "--out", self.folder / f"{bench}.json"],
                    ["calibrate", a, "--out", self.folder / f"{bench} calibrated.json"],
                )
            ):
                with self.subTest(f"{bench} {number}"):
                    program, *arguments = command
                    self.assert_harmless(run(BIN / f"overlap-{program}", *arguments, text=False))

    def test_logs_and_descriptions_of_others_command_nothing(self):
        log = self.folder / f"a{COMMANDS.replace('/', '')}.log"
        log.write_text(f"collective,bytes,time_us\nall_reduce{COMMANDS},1024,5\nall_reduce,{COMMANDS},6\n" * 4)
        for more in ([], ["--rows"], ["--fit"], ["--rows", "--format", "csv"], ["--rows", "--format", "json"]):
            self.assert_harmless(run(BIN / "overlap-import", log, *more, text=False))
        machine = {"format": "overlapbench machine", "version": 1, "name": "m", "fabric": COMMANDS, "device": COMMANDS}
        machine |= {"origins": [{"id": "here", "kind": "published", "source": COMMANDS}]}
        machine |= {"rates": [{"name": "memory", "rate": 3e12, "origin": "here"}], "collectives": [], "contention": []}
        for change in ({}, {COMMANDS: 1}, {"name": COMMANDS}, {"version": COMMANDS}):
            (self.folder / "m.json").write_text(json.dumps(machine | change))
            self.assert_harmless(run(BIN / "overlap-machine", "--check", self.folder / "m.json", text=False))

    def test_configuration_files_command_nothing(self):
        for text in (
            f"ranks{COMMANDS} = 2\n",
            f'collective = "{COMMANDS}"\n',
            f"[{COMMANDS}]\nranks = 2\n",
            f'out = "{COMMANDS}"',
        ):
            (self.folder / "o.toml").write_text(text)
            ran = run(PAIR, *TINY, "--list", "--config", self.folder / "o.toml", text=False)
            self.assert_harmless(ran)

    def test_a_directory_with_such_a_name_goes_on_as_printed(self):
        out = self.folder / f"it's {COMMANDS[:4]}"
        self.assertEqual(run(PAIR, *TINY, "--placement", "serial", "--out", out).returncode, 0)
        limit = (out / "samples.csv").stat().st_size
        ran = run(
            PAIR, *TINY, *TWO, "--out", out, "--resume",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), text=False,
        )  # fmt: skip
        self.assertEqual(ran.returncode, 1)
        self.assertNotIn(b"\x1b", ran.stderr)


class Places(RunTest):
    """What stands where a file should be."""

    def finished(self) -> Path:
        self.assertEqual(run(PAIR, *TINY, "--placement", "serial", "--out", self.out).returncode, 0)
        return self.out

    def resume(self) -> subprocess.CompletedProcess[str]:
        return run(PAIR, *TINY, *TWO, "--out", self.out, "--resume", "--timeline")

    def test_a_link_is_not_written_through(self):
        out = self.finished()
        for name in ("lock", "samples.csv", "operations.csv", "summary.csv", "timeline", ".run.json.new"):
            with self.subTest(name):
                victim = self.folder / f"victim of {name}"
                kept = out / name
                aside = self.folder / "aside"
                if kept.exists():
                    kept.rename(aside)
                if name == "timeline":
                    victim.mkdir()
                else:
                    victim.write_bytes(aside.read_bytes() if aside.exists() else b"mine\n")
                before = sorted(victim.iterdir()) if victim.is_dir() else victim.read_bytes()
                kept.symlink_to(victim)
                ran = self.resume()
                self.assertEqual(sorted(victim.iterdir()) if victim.is_dir() else victim.read_bytes(), before)
                if name != ".run.json.new":  # which is only a name to prepare under, and made anew
                    self.assertEqual(ran.returncode, 1, ran.stderr)
                    self.assertRegex(ran.stderr, "is a link, which may lead anywhere; put a f[^\n]+\n\\Z")
                kept.unlink(missing_ok=True)
                if aside.exists():
                    aside.rename(kept)

    def test_a_pipe_is_not_waited_for(self):
        out = self.finished()
        for name in ("run.json", "summary.csv", "samples.csv", "operations.csv", "lock"):
            with self.subTest(name):
                kept = self.folder / "aside"
                (out / name).rename(kept)
                os.mkfifo(out / name)
                for ran in (self.resume(), run(BIN / "overlap-compare", out, out)):
                    self.assertIn(ran.returncode, (0, 1, 2), ran.stderr)
                self.assertNotEqual(self.resume().returncode, 0)
                (out / name).unlink()
                kept.rename(out / name)
        self.assertEqual(self.resume().returncode, 0)

    def test_what_is_too_large_is_not_read(self):
        out = self.finished()
        for name, size in (("run.json", 65 << 20), ("summary.csv", 5 << 30)):
            with self.subTest(name):
                text = (out / name).read_bytes()
                with (out / name).open("r+b") as file:
                    file.truncate(size)  # a hole: it takes no room on the disk
                ran = run(
                    BIN / "overlap-compare", out, out,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
                )  # fmt: skip
                self.assertEqual(ran.returncode, 2, ran.stderr)
                self.assertRegex(ran.stderr, "has more than (64 MiB|4 GiB)")
                (out / name).write_bytes(text)

    def test_run_json_is_not_believed(self):
        out = self.finished()
        about = json.loads((out / "run.json").read_text())
        deep = "[" * 100_000 + "]" * 100_000
        twice = about["tables"]["summary"]["columns"][:1] * 2
        tables = about["tables"] | {"summary": {"version": 1, "columns": twice}}
        for text in (
            deep,
            '{"identity": ' + deep + ', "tables": {"summary": 1}}',
            json.dumps(about | {"resumed": "once"}),
            json.dumps(about | {"identity": None}),
            json.dumps(about | {"tables": tables}),
            "",
            "null",
        ):
            with self.subTest(text[:40]):
                (out / "run.json").write_text(text)
                for ran in (self.resume(), run(BIN / "overlap-compare", out, out)):
                    self.assertIn(ran.returncode, (0, 1, 2), ran.stderr[-300:])
                    self.assertNotIn("is a defect", ran.stderr)
                    self.assertLessEqual(len(ran.stderr), 4000)

    def test_rows_without_a_key_are_no_rows_of_ours(self):
        out = self.finished()
        header, row = (out / "summary.csv").read_text().splitlines()
        (out / "summary.csv").write_text(f"{header}\n{row}\n{row[row.index(',') :]}\n")
        ran = self.resume()
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertRegex(
            ran.stderr, r"\Aoverlap-pair: cannot read \S+/summary.csv: a row has no key or no launch: row 2; "
        )


class Elsewhere(RunTest):
    def test_a_run_of_another_machine_is_not_resumed(self):
        self.assertEqual(run(PAIR, *TINY, "--placement", "serial", "--out", self.out).returncode, 0)
        about = json.loads((self.out / "run.json").read_text())
        about["identity"]["machine"]["hostname"] = "node17"
        about["identity"]["machine"]["cpu"] = "another cpu"
        (self.out / "run.json").write_text(json.dumps(about))
        samples = (self.out / "samples.csv").read_bytes()
        ran = run(PAIR, *TINY, *TWO, "--out", self.out, "--resume")
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertIn('machine.cpu: was "another cpu", is ', ran.stderr)
        self.assertIn('machine.hostname: was "node17", is ', ran.stderr)
        self.assertEqual((self.out / "samples.csv").read_bytes(), samples)

    def test_a_directory_that_may_not_be_written_is_read(self):
        self.assertEqual(run(PAIR, *TINY, "--placement", "serial", "--out", self.out).returncode, 0)
        before = {path.name: path.read_bytes() for path in self.out.iterdir() if path.is_file()}
        self.out.chmod(0o555)
        self.addCleanup(self.out.chmod, 0o755)
        self.assertEqual(run(BIN / "overlap-compare", self.out, self.out).returncode, 0)
        if os.geteuid() == 0:
            self.skipTest("root may write anywhere")
        ran = run(PAIR, *TINY, *TWO, "--out", self.out, "--resume")
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertRegex(ran.stderr, r"\Aoverlap-pair: cannot [^\n]+: Permission denied; name a directory [^\n]+\n\Z")
        self.assertEqual({path.name: path.read_bytes() for path in self.out.iterdir() if path.is_file()}, before)


class Clock(RunTest):
    def test_a_clock_that_steps_changes_nothing(self):
        """The time of day jumps an hour back or forth at every look at it: nothing is measured or ended by it."""
        library = BUILD / "tests" / "modules" / "ovl_step_clock.so"
        env = ENVIRONMENT | {"LD_PRELOAD": str(library)}
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        ran = run(PAIR, *TINY, *TWO, *words("--deadline 20s --format csv"), "--out", self.out, env=env)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=2)
        for row in self.summary():
            self.assertTrue(0 < float(row["t_measure"]) < PATIENCE, row["t_measure"])
            self.assertTrue(0 < float(row["t_step"]) < 60)
        for row in table(self.out / "samples.csv"):
            self.assertTrue(0 < float(row["step"]) < 60, row)


if __name__ == "__main__":
    unittest.main()
