# SPDX-License-Identifier: Apache-2.0
"""Every bench meets every fault that a cluster has: it says what broke in one line, ends, keeps what is finished,
leaves nobody behind, and --resume measures the rest. Deadlines only end what would hang: no time decides whether a
test passes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import emulated
from aftermath import mark, measured_twice, orphans, rows_of, tell, unsound
from binaries import BUILD, ENVIRONMENT, PATIENCE, QUICK, SELFCHECK, RunTest, words
from emulated import VIOLATION, needs_emulation
from processes_test import environment as scripted_environment
from processes_test import free_port

from benches import BENCHES, Bench

FOUND: Counter[str] = Counter()
LOCK = threading.Lock()

# A call that reports each kind of fault, and what it returns then where that is not its usual error.
CUDA_FAULTS = {
    "out of memory": ("cudaMalloc", ""),
    "an asynchronous error of NCCL": ("ncclCommGetAsyncError", ""),
    "an error that stays": ("cudaEventRecord", ":700"),
    "a call of NCCL in mid-run": ("ncclGroupEnd", ""),
    "a launch in mid-run": ("cudaLaunchKernelExC", ":719"),
}
LATE = 0.7  # of all calls of a run: its first case is finished by then
LATE_AGAIN = 0.3  # likewise, where its first case is finished already


def count(**outcomes: int) -> None:
    with LOCK:
        FOUND.update({name.replace("_", " "): number for name, number in outcomes.items()})


def tearDownModule():
    tell("faults", FOUND)


@dataclass
class Ended:
    """Of all processes of a job; what the first said."""

    codes: list[int]
    said: str

    def told(self, program: str) -> list[str]:
        return [line for line in self.said.splitlines() if line.startswith(program + ": ")]


class Job:
    """Processes under way, each of which has the same mark."""

    def __init__(
        self, program: Path, count: int, arguments: Iterable[str | Path], env: Callable[[int], dict[str, str]]
    ):
        self.program = program
        self.marked = mark()
        self.lines: list[str] = []
        self.heard = threading.Condition()
        port = str(free_port())
        self.processes = []
        for process in range(count):
            launcher = {}
            if count > 1:
                launcher = {"RANK": str(process), "WORLD_SIZE": str(count), "LOCAL_RANK": str(process)}
                launcher |= {"LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                launcher |= {"TORCHELASTIC_RUN_ID": "faults"}
            self.processes.append(
                subprocess.Popen(
                    [program, *arguments],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=env(process) | launcher | self.marked,
                )
            )
        self.readers = [threading.Thread(target=self._read, args=(process,)) for process in self.processes]
        for reader in self.readers:
            reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            with self.heard:
                self.lines.append(line)
                self.heard.notify_all()
        with self.heard:
            self.heard.notify_all()

    def wait_for(self, text: str) -> bool:
        """Until a line holds the text, or all have ended."""
        with self.heard:
            self.heard.wait_for(
                lambda: any(text in line for line in self.lines) or all(p.poll() is not None for p in self.processes),
                PATIENCE,
            )
            return any(text in line for line in self.lines)

    def end(self) -> Ended:
        """A job that does not end is a hang: counted, killed."""
        codes = []
        for process in self.processes:
            try:
                codes.append(process.wait(PATIENCE))
            except subprocess.TimeoutExpired:
                count(hangs=1)
                process.kill()
                codes.append(process.wait())
        for reader in self.readers:
            reader.join()
        return Ended(codes, "".join(self.lines))


def kill_all(marked: dict[str, str]) -> None:
    for pid in orphans(marked):
        os.kill(pid, signal.SIGKILL)


class Faults(RunTest):
    """What is the same for all: a run that breaks, what it leaves, and the run that goes on."""

    workers = os.cpu_count() or 1

    def each(self, check: Callable[[Bench], None], benches: Iterable[Bench] = BENCHES) -> None:
        """Of all benches at once; what is wrong with any is told of all."""
        wrong = []

        def checked(bench: Bench) -> None:
            try:
                check(bench)
            except Exception as error:
                wrong.append(f"overlap-{bench.name}: {type(error).__name__}: {error}")

        with ThreadPoolExecutor(self.workers) as pool:
            list(pool.map(checked, benches))
        self.assertEqual(wrong, [], "\n".join(wrong))

    def settle(
        self, bench: Bench, out: Path, job: Job, ended: Ended, told: str, processes: int = 1
    ) -> dict[tuple[str, str], dict[str, str]]:
        """Of a run that met a fault: everything that holds whatever it was. The rows that it kept."""
        there = orphans(job.marked)
        count(faults_injected=1, orphans=len(there), hangs=0)
        kill_all(job.marked)
        self.assertEqual(there, [], ended.said)
        self.assertNotIn("is a defect of overlapbench", ended.said)
        self.assertNotIn(VIOLATION, ended.codes, ended.said)
        self.assertLessEqual(set(ended.codes), {0, 1, 2, 3, -signal.SIGKILL}, ended.said)
        self.assertEqual(unsound(out), [])
        rows = rows_of(out)
        announced = len(re.findall(r"(?m)^\[\d+/\d+\] ", ended.said))
        self.assertLessEqual(announced, len(rows), f"a finished row is lost: {ended.said}")
        count(rows_lost=max(0, announced - len(rows)), rows_kept=len(rows))
        lines = ended.told(bench.program.name)
        said = " ".join(lines) + " ".join(row["reason"] for row in rows.values())
        if told:
            self.assertRegex(said, told)
        if 1 in ended.codes:
            self.assertLessEqual(len(lines), processes, "in one line")
        return rows

    def resume(self, bench: Bench, out: Path, rows, whole: set[tuple[str, str]], command, env) -> None:
        """What was kept stays as it is; every other case is measured, once."""
        job = Job(bench.program, 1, [*command, "--resume"] if (out / "run.json").exists() else command, lambda _: env)
        ended = job.end()
        after = rows_of(out)
        failed = {row["status"] for row in after.values()} & {"failed_verify", "timeout"}
        self.assertEqual(ended.codes, [1 if failed else 0], ended.said)
        self.assertEqual(set(after), whole)
        self.assertEqual({key: after[key] for key in rows}, rows)
        self.assertFalse(measured_twice(out))
        self.assertEqual(orphans(job.marked), [])
        count(completed_by_resume=1)


@needs_emulation
class OnDevices(Faults):
    """Two emulated GPUs."""

    def command(self, bench: Bench, out: Path, *more: str) -> list[str | Path]:
        return bench.command("cuda", "--deadline", "20s", *more, "--out", out)

    def break_each(self, bench: Bench) -> None:
        counts = self.folder / f"{bench.name}.counts"
        whole = self.folder / f"{bench.name} whole"
        job = Job(bench.program, 1, self.command(bench, whole), lambda _: emulated.environment(2, counts=str(counts)))
        self.assertEqual((ended := job.end()).codes, [0], ended.said)
        calls = {call: int(number) for call, number in (line.split() for line in counts.read_text().splitlines())}
        keys = set(rows_of(whole))
        self.assertGreater(len(keys), 1)
        number = 0
        rows: dict[tuple[str, str], dict[str, str]] = {}
        for fault, (call, code) in CUDA_FAULTS.items():
            if call not in calls:
                continue
            # Each goes on where the one before broke, until there is nothing to break.
            number += not rows
            out = self.folder / f"{bench.name} {number}"
            command = [*self.command(bench, out), *(["--resume"] if rows else [])]
            which = max(1, int((LATE_AGAIN if rows else LATE) * calls[call]))
            env = emulated.environment(2, fail=f"{call}:{which}{code}")
            job = Job(bench.program, 1, command, lambda _, env=env: env)
            ended = job.end()
            # An error that stays is seen by whichever call comes next, of any rank.
            told = "" if ended.codes == [0] else "cuda|nccl" if code else call
            before, rows = rows, self.settle(bench, out, job, ended, told)
            self.assertEqual({key: rows.get(key) for key in before}, before, fault)
            count(**{"an_error_in_one_line" if ended.codes == [1] else "a_row_says_so": 1})
            if ended.codes == [1]:
                self.assertRegex(ended.told(bench.program.name)[-1], "continue with: .* --resume$")
            if set(rows) == keys:
                rows = {}
        self.resume(bench, out, rows_of(out), keys, self.command(bench, out), emulated.environment(2))

    def test_every_bench_meets_every_fault(self):
        self.each(self.break_each)

    def test_what_this_nccl_or_driver_is_too_old_for_is_a_row(self):
        def lack(bench: Bench) -> None:
            lacking = [(["--buffers", "symmetric"], {"nccl": "22600"}, "NCCL")]
            if bench.partitions:
                lacking.append((["--placement", "partitioned"], {"without": "green_contexts"}, "green contexts|driver"))
            for more, settings, told in lacking:
                out = self.folder / f"{bench.name} {more[1]}"
                env = emulated.environment(2, **settings)
                job = Job(bench.program, 1, self.command(bench, out, *more), lambda _, env=env: env)
                ended = job.end()
                rows = self.settle(bench, out, job, ended, told)
                self.assertEqual(ended.codes, [3], ended.said)
                self.assertEqual({row["status"] for row in rows.values()}, {"unsupported"})
                count(an_unsupported_row=len(rows))

        self.each(lack)

    def test_the_self_check_says_what_broke(self):
        for call, code in CUDA_FAULTS.values():
            job = Job(
                SELFCHECK, 1, words("--backend cuda"), lambda _, f=f"{call}:3{code}": emulated.environment(2, fail=f)
            )
            ended = job.end()
            count(faults_injected=1, orphans=len(orphans(job.marked)))
            self.assertIn(ended.codes, ([0], [1], [3]), ended.said)
            self.assertNotIn("is a defect of overlapbench", ended.said)


class OfSeveral(Faults):
    """Two processes, whose module follows a script: whoever fails, dies or never arrives is named by the others. The
    script knows the usual five arms: benches that have others meet this in Silent and OverMpi."""

    workers = 4  # they wait more than they work

    def command(self, bench: Bench, out: Path, deadline: str = "1s") -> list[str | Path]:
        return bench.command("cuda", "--deadline", deadline, "--out", out)

    def meet(self, trouble: str, codes: list[int], told: str) -> None:
        def meet_one(bench: Bench) -> None:
            out = self.folder / f"{bench.name} {trouble}"
            env = scripted_environment() | {"OVL_SCRIPTED": trouble}
            job = Job(bench.program, 2, self.command(bench, out), lambda _: env)
            ended = job.end()
            rows = self.settle(bench, out, job, ended, told)
            self.assertEqual(ended.codes, codes, ended.said)
            count(an_error_in_one_line=1)
            again = Job(bench.program, 2, [*self.command(bench, out), "--resume"], lambda _: scripted_environment())
            ended = again.end()
            after = rows_of(out)
            self.assertGreater(len(after), 1)
            self.assertEqual(
                set(ended.codes), {1 if "timeout" in {r["status"] for r in after.values()} else 0}, ended.said
            )
            self.assertEqual({key: after[key] for key in rows}, rows)
            count(completed_by_resume=1)

        self.each(meet_one, [bench for bench in BENCHES if bench.name not in ("contention", "pp", "step")])

    def test_one_that_fails(self):
        self.meet("fail:1", [1, 1], "process 1: a lane broke; continue, under torchrun as before, with: ")

    def test_one_that_dies(self):
        self.meet("die:1", [1, -signal.SIGKILL], "process 1 is lost: ")

    def test_one_that_never_arrives(self):
        self.meet(
            "hang:1", [1, 1], "did not finish within 1 s: process 0: .+; process 1: rank 0 .+: enqueued .+, completed "
        )


class Stuck(Faults):
    def test_a_call_that_does_not_return_ends_a_launch_and_its_parent_goes_on(self):
        """No abort reaches it: the process ends, its row is kept, a fresh one measures the rest."""
        bench = BENCHES[0]
        case = words("--backend cuda --gemm 4x4x4 --bytes 64 --placement concurrent --deadline 1s --launches 2")
        env = scripted_environment() | {"OVL_SCRIPTED": "stuck:0"}
        job = Job(bench.program, 1, [*case, *QUICK, "--out", self.out], lambda _: env)
        ended = job.end()
        rows = self.settle(bench, self.out, job, ended, "a call into a library does not return", processes=2)
        self.assertEqual(ended.codes, [1], ended.said)
        self.assertEqual(sorted(launch for _, launch in rows), ["0", "1"])
        self.assertEqual({row["status"] for row in rows.values()}, {"timeout"})
        self.assertEqual(ended.said.count("again, without the case that hangs"), 2, ended.said)
        count(a_fresh_process_went_on=2)


class Stopped(Faults):
    """A process that stands still, as under Ctrl-Z or in a frozen container, and goes on: slow, and no hang."""

    workers = 4  # they sleep

    def test_a_run_that_stood_still_longer_than_its_deadline_is_whole(self):
        def stop(bench: Bench) -> None:
            out = self.folder / bench.name
            command = bench.command("host", *words("--deadline 4s --min-samples 200 --max-samples 200"), "--out", out)
            job = Job(bench.program, 1, command, lambda _: ENVIRONMENT)
            self.assertTrue(job.wait_for("[1/"), "".join(job.lines))
            job.processes[0].send_signal(signal.SIGSTOP)
            time.sleep(5)
            job.processes[0].send_signal(signal.SIGCONT)
            ended = job.end()
            rows = self.settle(bench, out, job, ended, "")
            self.assertEqual(ended.codes, [0], ended.said)
            self.assertLessEqual({row["status"] for row in rows.values()}, {"ok", "noisy"})
            count(went_on_by_itself=1)

        self.each(stop, [bench for bench in BENCHES if bench.name in ("pair", "ddp", "pp", "queue")])


@needs_emulation
class Silent(Faults):
    """One of two processes with a GPU each stands still for ever: the other does not wait for it for ever."""

    workers = 4

    def test_a_peer_that_never_arrives(self):
        def silence(bench: Bench) -> None:
            out = self.folder / bench.name
            command = bench.command("cuda", "--deadline", "1s", "--out", out)
            job = Job(bench.program, 2, command, lambda _: emulated.environment(2))
            self.assertTrue(job.wait_for("[1/"), "".join(job.lines))
            job.processes[1].send_signal(signal.SIGSTOP)
            code = job.processes[0].wait(PATIENCE)
            job.processes[1].send_signal(signal.SIGCONT)
            ended = job.end()
            if code == 0:  # it had done its part
                return
            rows = self.settle(bench, out, job, ended, "hangs|process 1|did not finish")
            self.assertEqual(ended.codes, [1, 1], ended.said)
            self.assertGreaterEqual(len(rows), 1)
            count(an_error_in_one_line=1)
            job = Job(bench.program, 2, [*command, "--resume"], lambda _: emulated.environment(2))
            ended = job.end()
            after = rows_of(out)
            self.assertEqual({key: after[key] for key in rows}, rows)
            self.assertGreater(len(after), 1)
            count(completed_by_resume=1)

        self.each(silence)


@unittest.skipUnless(shutil.which("mpiexec.openmpi"), "no mpiexec here")
@unittest.skipUnless((BUILD / "lib/overlapbench/overlapbench-mpi-openmpi.so").exists(), "no module for MPI")
class OverMpi(Faults):
    """A rank that is killed: MPI ends the others, rows stay."""

    def test_a_killed_rank(self):
        def kill(bench: Bench) -> None:
            out = self.folder / bench.name
            command = [*words("--bind-to none --oversubscribe -n 2"), bench.program]
            command += bench.command("host", *words("--transport mpi --deadline 20s"), "--out", out)
            env = ENVIRONMENT | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            launcher = Path(shutil.which("mpiexec.openmpi") or "")
            job = Job(launcher, 1, command, lambda _: env)
            self.assertTrue(job.wait_for("[1/"), "".join(job.lines))
            processes = json.loads((out / "run.json").read_text())["run"]["processes"]
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(processes[1]["pid"]), signal.SIGKILL)
            ended = job.end()
            if ended.codes == [0]:  # it had come to its end
                return
            there = orphans(job.marked)
            count(faults_injected=1, the_job_ends=1, orphans=len(there))
            self.assertEqual((there, unsound(out)), ([], []), ended.said)
            rows = rows_of(out)
            self.assertGreaterEqual(len(rows), 1)
            count(rows_kept=len(rows))
            again = Job(launcher, 1, [*command, "--resume"], lambda _: env)
            ended = again.end()
            self.assertEqual(ended.codes, [0], ended.said)
            after = rows_of(out)
            self.assertEqual({key: after[key] for key in rows}, rows)
            self.assertGreater(len(after), len(rows))
            count(completed_by_resume=1)

        self.each(kill)


if __name__ == "__main__":
    unittest.main()
