# SPDX-License-Identifier: Apache-2.0
"""What the compiler made of the kernels that stay, read from the machine code in the module, for every architecture in
it: the registers of a thread are within what device_kernels.hpp states, and none is spilled."""

from __future__ import annotations

import os
import re
import struct
import unittest
from collections.abc import Iterator
from pathlib import Path

MODULE = Path(os.environ.get("OVL_BUILD_DIR", "build")) / "lib" / "overlapbench" / "overlapbench-cuda.so"
HEADER = Path(__file__).parents[2] / "kernels" / "cuda" / "device_kernels.hpp"
KERNELS = {"ovl_occupy": "occupy", "ovl_stream": "stream", "ovl_ring_proxy": "ring_proxy"}

FATBIN = struct.pack("<I", 0xBA55ED50)
ENTRY_OF_MACHINE_CODE = 2
# .nv.info is a list of attributes; these have a symbol and a number.
REGISTERS = 0x2F  # EIATTR_REGCOUNT
STACK_BYTES = 0x11  # EIATTR_FRAME_SIZE


def machine_code(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(architecture, ELF file) of every entry of every fat binary."""
    at = data.find(FATBIN)
    while at >= 0:
        header, size = struct.unpack_from("<HQ", data, at + 6)
        entry, end = at + header, at + header + size
        while entry < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + 28)
            if kind == ENTRY_OF_MACHINE_CODE:
                yield architecture, data[entry + header : entry + header + size]
            entry += header + size
        at = data.find(FATBIN, end)


def sections(elf: bytes) -> Iterator[tuple[str, int, bytes]]:
    """(name, type, contents)."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + size * i) for i in range(count)]
    text = headers[names][4]
    for name, kind, _, _, offset, length in headers:
        yield elf[text + name :].split(b"\0", 1)[0].decode(), kind, elf[offset : offset + length]


def numbers(elf: bytes) -> dict[tuple[str, int], int]:
    """Of each kernel's name and attribute."""
    parts = {name: contents for name, _, contents in sections(elf)}
    symbols, text = parts[".symtab"], parts[".strtab"]

    def name_of(symbol: int) -> str:
        (at,) = struct.unpack_from("<I", symbols, 24 * symbol)
        return text[at:].split(b"\0", 1)[0].decode()

    found, info, at = {}, parts[".nv.info"], 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != 4:  # its value is in its header
            continue
        if attribute in (REGISTERS, STACK_BYTES):
            symbol, number = struct.unpack_from("<II", info, at)
            found[name_of(symbol), attribute] = number
        at += size
    return found


def stated() -> dict[str, tuple[int, int]]:
    """Least and most registers of each kernel."""
    pattern = r"StatedFootprint (\w+)_footprint\{\d+, (\d+), (\d+), \d+\}"
    return {name: (int(least), int(most)) for name, least, most in re.findall(pattern, HEADER.read_text())}


@unittest.skipUnless(MODULE.exists(), "this build has no cuda backend")
class Resources(unittest.TestCase):
    def test_kernels_that_stay_take_what_is_stated(self):
        seen: dict[str, set[int]] = {kernel: set() for kernel in KERNELS}
        for architecture, elf in machine_code(MODULE.read_bytes()):
            self.assertEqual(elf[:4], b"\x7fELF", "compressed: nothing can be read of it")
            found = numbers(elf)
            for kernel, name in KERNELS.items():
                if (kernel, REGISTERS) not in found:
                    continue
                seen[kernel].add(architecture)
                least, most = stated()[name]
                with self.subTest(kernel=kernel, architecture=architecture):
                    self.assertGreaterEqual(found[kernel, REGISTERS], least)
                    self.assertLessEqual(found[kernel, REGISTERS], most)
                    self.assertEqual(found[kernel, STACK_BYTES], 0)
        for kernel, architectures in seen.items():
            self.assertTrue(architectures, f"{kernel} is in the module")
        self.assertEqual(len({frozenset(a) for a in seen.values()}), 1, "the same for all")


if __name__ == "__main__":
    unittest.main()
