# SPDX-License-Identifier: Apache-2.0
"""overlap-pair on emulated GPUs: the public binary and the real module on a double of CUDA, cuBLASLt and NCCL."""

from __future__ import annotations

import csv
import io
import socket
import subprocess
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binaries import BUILD, ENVIRONMENT, PAIR, PATIENCE, QUICK, words

LIBRARIES = BUILD / "tests" / "cuda_emulation" / "lib"
MODULE = BUILD / "lib" / "overlapbench" / "overlapbench-cuda.so"
VIOLATION = 86  # the exit code of a program that misuses the emulated device
CASE = [*words("--backend cuda --gemm 32x32x32 --bytes 4KiB"), *QUICK]

needs_emulation = unittest.skipUnless(
    MODULE.exists() and LIBRARIES.exists(), "this build has no cuda backend: the CUDA toolkit or NCCL was not found"
)


def environment(gpus: int = 1, **settings: str) -> dict[str, str]:
    """Of a machine with so many GPUs; settings are the emulation's, without their OVL_EMULATED_."""
    emulated = {f"OVL_EMULATED_{name.upper()}": str(value) for name, value in settings.items()}
    return ENVIRONMENT | {"LD_LIBRARY_PATH": str(LIBRARIES), "OVL_EMULATED_GPUS": str(gpus)} | emulated


def pair(
    *arguments: str | Path, gpus: int = 1, program: Path = PAIR, **settings: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=PATIENCE, env=environment(gpus, **settings)
    )


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def processes(
    count: int,
    *arguments: str | Path,
    program: Path = PAIR,
    each: dict[int, dict[str, str]] | None = None,
    **settings: str,
) -> Iterator[list[subprocess.Popen[str]]]:
    """As torchrun starts them on one node: one process a GPU. None outlives the block. `each` has a process's own
    settings."""
    port = free_port()
    started = []
    for rank in range(count):
        launcher = {
            "RANK": rank,
            "WORLD_SIZE": count,
            "LOCAL_RANK": rank,
            "LOCAL_WORLD_SIZE": count,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "TORCHELASTIC_RUN_ID": "emulated",
        }
        started.append(
            subprocess.Popen(
                [program, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(count, **(settings | (each or {}).get(rank, {})))
                | {name: str(value) for name, value in launcher.items()},
            )
        )
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()
