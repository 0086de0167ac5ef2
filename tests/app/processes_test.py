# SPDX-License-Identifier: Apache-2.0
"""Several processes, started as torchrun starts them, and the module that they load: its backend follows a script."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import unittest
from pathlib import Path

from binaries import BUILD, ENVIRONMENT, PAIR, PATIENCE, RunTest, is_locked, run, table, words

MODULES = BUILD / "tests" / "modules"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "OMPI_", "PMI", "MPI_", "SLURM_")
CLEAN = {name: value for name, value in ENVIRONMENT.items() if not name.startswith(LAUNCHERS)}
SMALL = words(
    "--allow-debug --backend cuda --gemm 4x4x4 --bytes 64 --placement concurrent,serial --min-samples 3 "
    "--max-samples 4 --max-time 1s --window 50us"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(module: str = "scripted", **more: str) -> dict[str, str]:
    return CLEAN | {"OVERLAPBENCH_MODULE_PATH": str(MODULES / module)} | more


class Job:
    """Processes of one job under way, each told its number as torchrun tells it."""

    def __init__(
        self, size: int, *arguments: str | Path, trouble: str = "", each=lambda process: {}, more=lambda p: []
    ):
        port = free_port()
        self.processes = []
        for process in range(size):
            settings = environment(
                RANK=str(process), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
            )
            settings |= {"OVL_SCRIPTED": trouble, "TORCHELASTIC_RUN_ID": "test"} | each(process)
            self.processes.append(
                subprocess.Popen(
                    [PAIR, *arguments, *more(process)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=settings,
                )
            )

    def end(self):
        """Exit codes, standard outputs, standard errors."""
        said = [process.communicate(timeout=PATIENCE) for process in self.processes]
        return [p.returncode for p in self.processes], [out for out, _ in said], [err for _, err in said]


class Processes(RunTest):
    def job(self, size, *arguments, **more):
        started = Job(size, *arguments, **more)
        for process in started.processes:
            self.addCleanup(process.kill)
        return started

    def numbers(self, directory: Path):
        """What the rows say, without what every run has of its own."""
        columns = ("key", "status", "verify", "ranks", "t_compute", "t_comm", "t_step", "hidden_share", "program_hash")
        return [[row[c] for c in columns] for row in table(directory / "summary.csv")]

    def test_the_rows_are_those_of_one_process(self):
        alone = run(PAIR, *SMALL, "--ranks", "3", "--out", self.folder / "alone", env=environment())
        self.assertEqual(alone.returncode, 0, alone.stderr)
        for size in (2, 3):
            out = self.folder / f"of {size}"
            codes, outs, errs = self.job(size, *SMALL, "--ranks", "3", "--out", out, "--timeline").end()
            self.assertEqual(codes, [0] * size, errs)
            self.assertEqual(self.numbers(out), self.numbers(self.folder / "alone"))
            self.assertEqual({row["rank"] for row in table(out / "samples.csv")}, {"0", "1", "2"})
            self.assertIn("In words:", outs[0])
            self.assertEqual(outs[1:] + errs[1:], [""] * 2 * (size - 1), "only process 0 speaks")
            run_json = json.loads((out / "run.json").read_text())["run"]
            self.assertEqual(run_json["launcher"], "torchrun")
            self.assertEqual(len({p["pid"] for p in run_json["processes"]}), size)

    def test_lists_and_plans_are_printed_once(self):
        for what in ("--list", "--dry-run", "--benchmark_list_tests"):
            codes, outs, errs = self.job(2, *SMALL, what).end()
            self.assertEqual((codes, errs), ([0, 0], ["", ""]))
            self.assertIn("4x4x4", outs[0])
            self.assertEqual(outs[1], "")

    def test_google_benchmark_reports_once(self):
        codes, outs, errs = self.job(
            2, *SMALL, "--benchmark_format=json", "--benchmark_filter=serial", f"--benchmark_out={self.folder}/out.json"
        ).end()
        self.assertEqual(codes, [0, 0], errs)
        self.assertEqual(len(json.loads(outs[0])["benchmarks"]), 1)
        self.assertEqual(len(json.loads((self.folder / "out.json").read_text())["benchmarks"]), 1)
        self.assertEqual(outs[1], "")

    def assert_told_once(self, ended, code: int, text: str):
        codes, outs, errs = ended
        self.assertEqual(codes, [code] * len(codes), errs)
        self.assertRegex(errs[0].splitlines()[-1], text)
        self.assertEqual(errs[1:] + outs[1:], [""] * 2 * (len(codes) - 1))

    def test_a_failure_of_one_ends_all(self):
        named = r"^overlap-pair: case pair/\S+: process 1: a lane broke; "
        ended = self.job(3, *SMALL, trouble="fail:1").end()
        self.assert_told_once(ended, 1, named + "with --out DIR what is finished would be kept$")
        ended = self.job(2, *SMALL, "--out", self.out, trouble="fail:1").end()
        self.assert_told_once(ended, 1, named + "continue, under torchrun as before, with: .* --resume$")

    def test_what_one_does_not_support_is_a_row(self):
        codes, outs, errs = self.job(2, *SMALL, "--format", "csv", trouble="unsupported:1").end()
        self.assertEqual(codes, [3, 3], errs)
        self.assertEqual(outs[0].count("unsupported"), 2)
        self.assertIn("process 1: not on a Sunday", outs[0])

    def test_a_hang_of_one_is_a_row_and_ends_all(self):
        ended = self.job(2, *SMALL, "--out", self.out, "--deadline", "2s", trouble="hang:1").end()
        self.assert_told_once(ended, 1, "hangs: .*; continue, under torchrun as before, with: .* --resume$")
        self.assertEqual([row["status"] for row in self.summary()], ["timeout"])
        # The others go on where it ended.
        codes, _, errs = self.job(2, *SMALL, "--out", self.out, "--resume").end()
        self.assertEqual(codes, [1, 1], errs)
        self.assertEqual([row["status"] for row in self.summary()], ["timeout", "ok"])

    def test_a_process_that_dies_is_named_by_the_others(self):
        codes, _, errs = self.job(3, *SMALL, "--out", self.out, trouble="die:1").end()
        self.assertEqual(codes, [1, -signal.SIGKILL, 1])
        self.assertRegex(errs[0], r"overlap-pair: case pair/\S+: process 1 is lost: .*; continue, under torchrun")
        self.assertEqual(errs[2], "", "process 0 tells it")
        self.assertFalse(is_locked(self.out))

    def test_where_the_first_process_dies_the_others_say_so(self):
        codes, _, errs = self.job(3, *SMALL, "--out", self.out, trouble="die:0").end()
        self.assertEqual(codes, [-signal.SIGKILL, 1, 1])
        for err in errs[1:]:
            self.assertRegex(err, r"overlap-pair: case pair/\S+: process 0 is lost: ")

    def test_a_call_that_does_not_return_ends_its_process(self):
        """No abort reaches it; the row is kept all the same."""
        for size in (1, 2):
            with self.subTest(size):
                out = self.folder / str(size)
                job = self.job(size, *SMALL, "--out", out, "--deadline", "2s", trouble="stuck:0")
                codes, _, errs = job.end()
                self.assertEqual(codes, [1] * size, errs)
                self.assertRegex(errs[0], r"overlap-pair: case pair/\S+: .*; a call into a library does not return")
                self.assertRegex(errs[0], r"(?m); continue.* with: .* --resume$")
                (row,) = table(out / "summary.csv")
                self.assertEqual(row["status"], "timeout")
                self.assertIn("a replay did not finish within 2 s: ", row["reason"])
                self.assertIn("rank 0 comm: enqueued %3 all_reduce", row["reason"])
                self.assertFalse(is_locked(out))

    def test_an_interrupt_of_one_ends_all_and_what_is_finished_is_kept(self):
        job = self.job(2, *SMALL, "--out", self.out, "--max-samples", "1000", "--max-time", "50s", trouble="slow:0")
        for line in job.processes[0].stderr:  # a case is finished: the next is under way
            if "[1/2]" in line:
                break
            self.fail(line)
        job.processes[1].send_signal(signal.SIGINT)
        codes, _, errs = job.end()
        self.assertEqual(codes, [130, 130], errs)
        self.assertIn("process 1: interrupted", errs[0])
        self.assertEqual(errs[1], "")
        self.assertEqual(len(self.summary()), 1)

    def test_every_launch_is_a_world_of_its_own(self):
        codes, outs, errs = self.job(2, *SMALL, "--out", self.out, "--launches", "3").end()
        self.assertEqual(codes, [0, 0], errs)
        self.assert_complete(cases=2, launches=3)
        self.assertIn("launch #2 of 3", errs[0])
        self.assertIn("Between launches", outs[0])
        self.assertEqual((outs[1], errs[1]), ("", ""))

    def test_a_launch_that_hangs_is_started_again_without_the_case(self):
        ended = self.job(2, *SMALL, "--out", self.out, "--launches", "2", "--deadline", "2s", trouble="hang:1").end()
        self.assertEqual(ended[0], [1, 1], ended[2])
        self.assertEqual([row["status"] for row in self.summary()], ["timeout"] * 4)
        self.assertEqual([row["launch"] for row in self.summary()], ["0", "0", "1", "1"])

    def test_other_options_on_one_are_refused_before_anything_is_measured(self):
        ended = self.job(2, *SMALL, "--out", self.out, more=lambda p: ["--seed", str(p)]).end()
        self.assert_told_once(ended, 2, 'the plan differs between process 0 and process 1: line [0-9]+: "seed 0"')
        self.assertFalse(self.out.exists())

    def test_another_environment_on_one_is_refused(self):
        ended = self.job(2, *SMALL, each=lambda p: {"NCCL_ALGO": "Ring" if p else "Tree"}).end()
        self.assert_told_once(ended, 2, "the build or environment differs .*NCCL_ALGO")
        ended = self.job(2, *SMALL, each=lambda p: {"NCCL_ALGO": "Ring"} if p else {}).end()
        self.assert_told_once(ended, 2, 'NCCL_ALGO = ..?Ring.*", which only process 1 has')

    def test_each_may_see_another_device(self):
        codes, _, errs = self.job(2, *SMALL, each=lambda p: {"CUDA_VISIBLE_DEVICES": str(p)}).end()
        self.assertEqual(codes, [0, 0], errs)

    def test_a_directory_that_is_there_is_told_once(self):
        self.out.mkdir()
        (self.out / "mine").touch()
        self.assert_told_once(self.job(2, *SMALL, "--out", self.out).end(), 2, "overlap-pair: ")

    def test_the_host_backend_is_one_process(self):
        self.assert_told_once(
            self.job(2, *SMALL, "--backend", "host").end(), 3, "the shm transport cannot span 2 processes"
        )

    def test_a_wrong_token_is_not_let_in(self):
        job = self.job(2, *SMALL, each=lambda p: {"OVERLAPBENCH_TOKEN": f"token {p}"})
        _, err = job.processes[1].communicate(timeout=PATIENCE)
        self.assertEqual(job.processes[1].returncode, 1)
        self.assertRegex(err, "does not let process 1 in: its token is another: it belongs to another job")
        # Process 0 goes on waiting for the right one, and says so at once.
        told = job.processes[0].stderr.readline()
        self.assertRegex(told, "^overlap-pair: a process from 127.0.0.1 is not let in: its token is another: .*1 of 2")
        job.processes[0].kill()
        job.processes[0].communicate()

    def test_a_token_joins_what_a_wrapper_starts_one_by_one(self):
        """A launcher that names no job, and a shell between it and each process: their parents differ."""
        started = []
        for process in range(2):
            place = {"PMI_RANK": str(process), "PMI_SIZE": "2", "MPI_LOCALRANKID": str(process), "MPI_LOCALNRANKS": "2"}
            wrapper = ["sh", "-c", '"$@"; exit $?', "wrapper", PAIR, *SMALL]
            settings = environment(OVERLAPBENCH_TOKEN=str(self.folder), **place)
            started.append(subprocess.Popen(wrapper, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings))
        ends = [process.communicate(timeout=PATIENCE) for process in started]
        self.assertEqual([process.returncode for process in started], [0, 0], ends)

    def test_a_launcher_that_says_half_is_a_usage_error(self):
        ran = run(PAIR, *SMALL, env=environment(RANK="0"))
        self.assertEqual(ran.returncode, 2)
        self.assertIn("RANK is set and WORLD_SIZE is not", ran.stderr)


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
class Mpirun(RunTest):
    """A real launcher: what it sets is what is read. On one machine it needs no place."""

    def mpirun(self, *arguments):
        settings = environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return run(shutil.which("mpirun"), "--oversubscribe", "-np", "2", PAIR, *SMALL, *arguments, env=settings)

    def test_its_processes_are_one_run(self):
        ran = self.mpirun("--out", self.out, "--launches", "2")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=2, launches=2)
        self.assertEqual(len(json.loads((self.out / "run.json").read_text())["run"]["processes"]), 2)


class Modules(unittest.TestCase):
    def pair(self, module: str, *arguments: str, **more: str):
        return run(PAIR, *SMALL, "--list", *arguments, env=environment(module, **more), timeout=PATIENCE)

    def assert_impossible(self, ran, reason: str):
        self.assertEqual((ran.returncode, ran.stdout), (3, ""))
        self.assertRegex(ran.stderr, f'^overlap-pair: backend "cuda" cannot run here: cuda: {reason}; ')

    def test_a_module_is_a_backend(self):
        ran = self.pair("scripted", "--format", "csv")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(len(ran.stdout.splitlines()), 2)

    def test_auto_takes_it_before_the_host(self):
        plan = run(PAIR, *SMALL, "--backend", "auto", "--ranks", "3", "--list", "--transport", "x", env=environment())
        self.assertIn('transport "x" is unknown: known are shm', plan.stderr)
        for trouble in ("", "unusable:0"):
            ran = self.pair("scripted", "--backend", "auto", OVL_SCRIPTED=trouble)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_a_module_that_is_not_there_is_told_with_the_place(self):
        reason = r"overlapbench-cuda\.so is not in \S+/none, where OVERLAPBENCH_MODULE_PATH has it looked for: name its"
        self.assert_impossible(self.pair("none"), reason + " folder, or unset the variable")

    def test_its_own_reason_is_told(self):
        self.assert_impossible(self.pair("scripted", OVL_SCRIPTED="unusable:0"), "no device answers")

    def test_a_missing_library_is_named(self):
        self.assert_impossible(self.pair("needy"), r"its module cannot be loaded: libovl_absent\.so is missing")

    def test_a_module_of_another_version_is_refused(self):
        self.assert_impossible(
            self.pair("other_version"),
            r"overlapbench-cuda\.so is of version 0\.0\.1 interface 1, and this is \S+ interface \d+",
        )

    def test_what_is_no_module_is_refused(self):
        self.assert_impossible(self.pair("foreign"), r"overlapbench-cuda\.so is no module of overlapbench")

    def test_a_module_that_cannot_be_loaded_does_not_concern_the_host(self):
        for backend in ("host", "auto"):
            ran = self.pair("needy", "--backend", backend)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
