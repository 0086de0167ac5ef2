# SPDX-License-Identifier: Apache-2.0
"""Every bench that measures, as small as it goes: two cases or a few, on two ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from binaries import BUILD, QUICK, words

LAYERS = "--layers gpt2-small:2@8 --scale 0.02"


@dataclass
class Bench:
    name: str
    options: str  # on every backend
    host: str = ""  # on the host backend besides
    placement: str = ""  # unless asked otherwise
    partitions: bool = True  # it has --placement partitioned

    @property
    def program(self) -> Path:
        return BUILD / "bin" / f"overlap-{self.name}"

    def command(self, backend: str, *more: str | Path) -> list[str | Path]:
        """All words but the program."""
        own = words(self.host) if backend == "host" else []
        if self.placement and "--placement" not in more:
            own += ["--placement", self.placement]
        return [*words(self.options), *own, *QUICK, "--backend", backend, *more]


BENCHES = [
    Bench("pair", "--gemm 32x32x32 --bytes 4KiB,8KiB", placement="concurrent"),
    Bench("collective", "--gemm 32x32x32 --bytes 4KiB,8KiB"),
    Bench("contention", "--victim gemm:32x32x32 --aggressor all_reduce:4KiB,all_reduce:8KiB", "--ranks 2"),
    Bench("ddp", f"{LAYERS} --bucket 4KiB,25MiB"),
    Bench("fsdp", f"{LAYERS} --prefetch 0,1"),
    Bench("tp", f"{LAYERS} --tiles 1,2"),
    Bench("pp", "--layers gpt2-small:4@8 --scale 0.02 --stages 2 --microbatches 2 --schedule gpipe,1f1b"),
    Bench("step", f"{LAYERS} --microbatches 2 --mode ddp,fsdp"),
    Bench("ordering", "--gemm 8x8x8 --variant correct,global_sync", partitions=False),
    Bench("queue", "--bytes 4KiB --backlog 4 --duration 5ms --load 0.5,1.5", "--ranks 2", partitions=False),
]
