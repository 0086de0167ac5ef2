# SPDX-License-Identifier: Apache-2.0
"""Reads every #include and holds the tree to the layer table below: who includes whom, and who sees which vendor.

Also: every source file names its licence in its first lines, and no file names somebody's home folder.
Adding a folder is adding a row here. Run it with ctest, with pytest, or as it is.
"""

from __future__ import annotations

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# ---------------------------------------------------------------------------------------------------------- the table

PURE = {"base", "program", "stats", "schedule", "metrics"}
BACKENDS = {"backend/host", "backend/cuda", "backend/mpi", "backend/model"}

# layer: the other layers that it may include
MAY_INCLUDE = {
    "base": set(),
    "program": {"base"},
    "stats": {"base"},
    "schedule": {"base", "program", "stats"},
    "metrics": {"base", "program", "stats"},
    "kernels": {"base"},
    "backend": PURE,  # the interface, World and the registry
    "results": PURE | {"backend"},
    **{backend: PURE | {"kernels", "backend", "results"} for backend in BACKENDS},
    "measure": PURE | {"backend", "results"},
    "app": PURE | {"kernels", "backend", "results", "measure"} | BACKENDS,
    "benches": PURE | {"backend", "results", "measure", "app"},
}

# folder: its layer. A folder that is not here is an error, so that nobody is outside the table by accident.
FOLDERS = {
    **{f"harness/{layer}": layer for layer in MAY_INCLUDE if layer not in {"kernels", "benches"}},
    "harness/results/import": "results",
    "kernels/host": "kernels",
    "kernels/cuda": "kernels",
    "benches": "benches",
}

# headers of others: who may see them (a layer, or a layer's files with one of the given endings)
CUDA_SOURCES = (".cu", ".cuh")
VENDORS = {
    r"cblas\.h|openblas.*|lapacke?\.h": {"backend/host"},
    r"hwloc.*": {"backend/host"},
    r"mpi\.h": {"backend/mpi"},
    r"cuda.*|cublas.*|cupti.*|nccl.*|nvml.*|nvtx.*|cooperative_groups.*": {"backend/cuda", ("kernels", CUDA_SOURCES)},
    r"CLI/.*": {"app"},
    r"benchmark/.*": {"app"},
    r"nlohmann/.*": {"results", "app"},
    r"fmt/.*": set(MAY_INCLUDE) - {"base"},
    r".*intrin\.h": {"kernels", "backend/host"},
    # The operating system: whoever has effects. The pure layers have none.
    r"(dlfcn|fcntl|ifaddrs|netdb|poll|pthread|pwd|sched|signal|spawn|time|unistd)\.h": set(MAY_INCLUDE) - PURE,
    r"(arpa|linux|net|netinet|sys)/.*\.h": set(MAY_INCLUDE) - PURE,
}
STANDARD = re.compile(r"[a-z_]+")  # <vector>: no dot, no folder

# ---------------------------------------------------------------------------------------------------------- the rules

SOURCES = (".cpp", ".hpp", ".cu", ".cuh")
LICENSED = (*SOURCES, ".py", ".cmake", "CMakeLists.txt", ".sh", ".js", ".html")
SCRIPT_FOLDERS = ("scripts/", ".ci/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\b[ \t]*(?:"([^"]+)"|<([^>]+)>|(.*))', re.MULTILINE)
LICENCE = "SPDX-License-Identifier: Apache-2.0"
HOME = re.compile(r"/(home|root|Users)/\w")


def layer_of(path: str) -> str | None:
    return FOLDERS.get(path.rpartition("/")[0])


def may_see(path: str, layer: str, allowed: set) -> bool:
    return any(who == layer if isinstance(who, str) else who[0] == layer and path.endswith(who[1]) for who in allowed)


def resolve(header: str, tree: dict[str, str]) -> str | None:
    """The file of ours that `header` names: relative to harness/ or to the root, perhaps made by CMake from a .in."""
    candidates = [place + header for place in ("harness/", "")]
    return next((path for path in candidates if path in tree or path + ".in" in tree), None)


def judge(path: str, layer: str, header: str, quoted: bool, tree: dict[str, str]) -> str | None:
    """What is wrong with one #include, or None."""
    target = resolve(header, tree)
    if target is not None:
        other = layer_of(target)
        if not quoted:
            return f'<{header}> is ours: write "{header}"'
        if other is None:
            return f'"{header}" is outside the layers'
        if other != layer and other not in MAY_INCLUDE[layer]:
            return f'{layer} may not include {other}: "{header}"'
        return None
    if not quoted and STANDARD.fullmatch(header):
        return None
    for pattern, allowed in VENDORS.items():
        if re.fullmatch(pattern, header):
            return None if may_see(path, layer, allowed) else f"{layer} may not see <{header}>"
    return (
        f"nobody knows {header}: paths are relative to harness/ or to the root; a new dependency is a row in the table"
    )


def include_findings(tree: dict[str, str]) -> list[str]:
    found = []
    for path, text in sorted(tree.items()):
        if not path.startswith(("harness/", "kernels/", "benches/")) or not path.endswith(SOURCES):
            continue
        layer = layer_of(path)
        if layer is None:
            found.append(f"{path}: its folder is in no row of the table")
            continue
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            quoted, angled, computed = match.groups()
            header = quoted or angled
            problem = judge(path, layer, header, bool(quoted), tree) if header else f"a computed #include: {computed}"
            if problem:
                found.append(f"{path}:{line}: {problem}")
    return found


def licence_findings(tree: dict[str, str]) -> list[str]:
    """The licence is the first line, or the second one after #! or <!doctype>."""
    return [
        f"{path}: its first lines lack '{LICENCE}'"
        for path, text in sorted(tree.items())
        if (path.endswith(LICENSED) or path.startswith(SCRIPT_FOLDERS))
        and not any(LICENCE in line for line in text.splitlines()[:2])
    ]


def home_findings(tree: dict[str, str]) -> list[str]:
    return [
        f"{path}:{number}: names a home folder"
        for path, text in sorted(tree.items())
        for number, line in enumerate(text.splitlines(), 1)
        if HOME.search(line)
    ]


def read_tree(root: Path) -> dict[str, str]:
    """Every text file that belongs to the repository, by its path from the root."""
    listing = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(listing, capture_output=True, check=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):  # a source archive has no history
        names = [str(path.relative_to(root)) for path in root.rglob("*") if not path.is_relative_to(root / "build")]
    tree = {}
    for name in filter(None, names):
        path = root / name
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if b"\0" not in data:
                tree[name] = data.decode("utf-8", "replace")
    return tree


# ---------------------------------------------------------------------------------------------------------- the tests


class Repository(unittest.TestCase):
    """This tree keeps the rules."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.tree = read_tree(ROOT)

    def test_it_was_read(self):
        self.assertIn("harness/base/units.hpp", self.tree)

    def test_layers_include_only_what_they_may(self):
        self.assertEqual(include_findings(self.tree), [])

    def test_every_source_names_its_licence(self):
        self.assertEqual(licence_findings(self.tree), [])

    def test_nobody_names_a_home_folder(self):
        self.assertEqual(home_findings(self.tree), [])


# A small tree that keeps every rule; each test below adds one file to it.
TREE = {
    "harness/base/units.hpp": "#include <vector>",
    "harness/program/program.hpp": '#include "base/units.hpp"',
    "harness/stats/summary.hpp": '#include "base/units.hpp"',
    "harness/schedule/pair.hpp": '#include "program/program.hpp"',
    "harness/metrics/overlap.hpp": '#include "stats/summary.hpp"',
    "kernels/host/reduce.hpp": '#include "base/units.hpp"',
    "harness/backend/backend.hpp": '#include "program/program.hpp"',
    "harness/results/table.hpp": '#include "backend/backend.hpp"\n#include <nlohmann/json.hpp>',
    "harness/results/import/csv.hpp": '#include "results/table.hpp"',
    "harness/results/build.hpp.in": "",
    "harness/backend/host/host.hpp": '#include "kernels/host/reduce.hpp"\n#include <hwloc.h>\n#include <cblas.h>',
    "harness/backend/cuda/cuda.cpp": "#include <cuda_runtime.h>\n#include <nccl.h>",
    "kernels/cuda/ring.cu": "#include <cuda_runtime.h>",
    "harness/measure/runner.hpp": '#include "results/table.hpp"\n#include <unistd.h>',
    "harness/app/app.hpp": '#include "backend/host/host.hpp"\n#include <CLI/CLI.hpp>\n#include <benchmark/benchmark.h>',
    "benches/pair.cpp": '#include "app/app.hpp"\n#include "schedule/pair.hpp"',
}


class IncludeRules(unittest.TestCase):
    """Each rule is seen to fail."""

    def allow(self, path: str, line: str):
        self.assertEqual(include_findings(TREE | {path: line}), [])

    def refuse(self, path: str, line: str, problem: str):
        self.assertEqual(include_findings(TREE | {path: line}), [f"{path}:1: {problem}"])

    def test_the_small_tree_keeps_every_rule(self):
        self.assertEqual(include_findings(TREE), [])

    def test_a_layer_may_include_itself_and_those_above_it(self):
        self.allow("harness/metrics/new.cpp", '#include "metrics/overlap.hpp"')
        self.allow("harness/metrics/new.cpp", '#include "program/program.hpp"')

    def test_a_layer_may_not_include_one_below_or_beside_it(self):
        for path, header, problem in [
            ("harness/base/new.hpp", "program/program.hpp", "base may not include program"),
            ("harness/program/new.hpp", "stats/summary.hpp", "program may not include stats"),
            ("harness/schedule/new.hpp", "metrics/overlap.hpp", "schedule may not include metrics"),
            ("harness/metrics/new.hpp", "backend/backend.hpp", "metrics may not include backend"),
            ("kernels/host/new.hpp", "program/program.hpp", "kernels may not include program"),
            ("harness/backend/new.hpp", "results/table.hpp", "backend may not include results"),
            ("harness/results/new.hpp", "measure/runner.hpp", "results may not include measure"),
            ("harness/measure/new.hpp", "app/app.hpp", "measure may not include app"),
        ]:
            with self.subTest(path):
                self.refuse(path, f'#include "{header}"', f'{problem}: "{header}"')

    def test_only_app_knows_a_concrete_backend(self):
        line = '#include "backend/host/host.hpp"'
        self.allow("harness/app/new.cpp", line)
        for path, layer in [("harness/measure/new.cpp", "measure"), ("benches/new.cpp", "benches")]:
            self.refuse(path, line, f'{layer} may not include backend/host: "backend/host/host.hpp"')

    def test_backends_do_not_know_each_other(self):
        self.refuse(
            "harness/backend/model/new.cpp",
            '#include "backend/host/host.hpp"',
            'backend/model may not include backend/host: "backend/host/host.hpp"',
        )

    def test_benches_do_not_know_kernels(self):
        line = '#include "kernels/host/reduce.hpp"'
        self.refuse("benches/new.cpp", line, 'benches may not include kernels: "kernels/host/reduce.hpp"')

    def test_a_vendor_is_seen_only_by_its_backend(self):
        for header, layer in [
            ("cblas.h", "backend/cuda"),
            ("hwloc.h", "measure"),
            ("hwloc/glibc-sched.h", "app"),
            ("mpi.h", "backend/host"),
            ("cuda_runtime.h", "backend"),
            ("cublasLt.h", "backend/host"),
            ("nccl.h", "measure"),
            ("cupti.h", "results"),
            ("nvml.h", "app"),
        ]:
            for spelled in (f"<{header}>", f'"{header}"'):
                with self.subTest(spelled):
                    self.refuse(f"harness/{layer}/new.cpp", f"#include {spelled}", f"{layer} may not see <{header}>")

    def test_of_the_kernels_only_the_cu_sees_cuda(self):
        self.allow("kernels/cuda/new.cuh", "#include <cuda_bf16.h>")
        self.refuse("kernels/cuda/ring.hpp", "#include <cuda_bf16.h>", "kernels may not see <cuda_bf16.h>")

    def test_command_line_and_benchmark_libraries_are_seen_only_by_app(self):
        self.refuse("benches/new.cpp", "#include <CLI/CLI.hpp>", "benches may not see <CLI/CLI.hpp>")
        self.refuse(
            "harness/measure/new.cpp",
            "#include <benchmark/benchmark.h>",
            "measure may not see <benchmark/benchmark.h>",
        )

    def test_json_is_read_and_written_only_by_results_and_app(self):
        self.allow("harness/app/new.cpp", "#include <nlohmann/json.hpp>")
        self.refuse(
            "harness/metrics/new.cpp",
            "#include <nlohmann/json.hpp>",
            "metrics may not see <nlohmann/json.hpp>",
        )

    def test_base_is_the_standard_library(self):
        self.allow("harness/program/new.cpp", "#include <fmt/core.h>")
        self.refuse("harness/base/new.cpp", "#include <fmt/core.h>", "base may not see <fmt/core.h>")

    def test_pure_layers_do_not_see_the_operating_system(self):
        self.allow("harness/backend/host/new.cpp", "#include <sys/mman.h>")
        self.refuse("harness/stats/new.cpp", "#include <unistd.h>", "stats may not see <unistd.h>")

    def test_an_unknown_folder_is_an_error(self):
        for path in ("harness/misc/x.hpp", "harness/x.hpp", "harness/backend/rocm/x.cpp", "kernels/x.cpp"):
            with self.subTest(path):
                self.assertEqual(include_findings(TREE | {path: ""}), [f"{path}: its folder is in no row of the table"])

    def test_an_unknown_header_is_an_error(self):
        why = "paths are relative to harness/ or to the root; a new dependency is a row in the table"
        self.refuse("harness/base/new.cpp", "#include <boost/any.hpp>", f"nobody knows boost/any.hpp: {why}")
        self.refuse("harness/app/new.cpp", "#include <papi.h>", f"nobody knows papi.h: {why}")
        self.refuse("harness/base/new.cpp", '#include "units.hpp"', f"nobody knows units.hpp: {why}")
        self.refuse("benches/new.cpp", '#include "tests/x.hpp"', f"nobody knows tests/x.hpp: {why}")

    def test_a_header_that_cmake_makes_is_known(self):
        self.allow("harness/app/new.cpp", '#include "results/build.hpp"')

    def test_our_headers_are_quoted(self):
        self.refuse(
            "harness/app/new.cpp", "#include <base/units.hpp>", '<base/units.hpp> is ours: write "base/units.hpp"'
        )

    def test_spaces_do_not_hide_an_include(self):
        self.refuse("harness/app/new.cpp", '  #  include  "hwloc.h"', "app may not see <hwloc.h>")

    def test_a_computed_include_cannot_be_judged(self):
        self.refuse("harness/app/new.cpp", "#include VENDOR_HEADER", "a computed #include: VENDOR_HEADER")

    def test_the_line_is_named(self):
        text = "#include <vector>\n\n#include <mpi.h>\n"
        self.assertEqual(
            include_findings(TREE | {"harness/app/new.cpp": text}),
            ["harness/app/new.cpp:3: app may not see <mpi.h>"],
        )


class TextRules(unittest.TestCase):
    def test_the_licence_is_in_the_first_two_lines(self):
        for path in ("harness/base/x.hpp", "kernels/cuda/x.cu", "tests/x_test.py", "scripts/x", "tests/CMakeLists.txt"):
            with self.subTest(path):
                self.assertEqual(licence_findings({path: f"#!/bin/sh\n# {LICENCE}\n"}), [])
                self.assertEqual(
                    licence_findings({path: f"\n\n# {LICENCE}\n"}), [f"{path}: its first lines lack '{LICENCE}'"]
                )

    def test_data_and_prose_need_no_licence_line(self):
        self.assertEqual(licence_findings({"README.md": "", "tests/golden/summary.csv": ""}), [])

    def test_a_home_folder_is_found_in_any_file(self):
        for home in ("home", "root", "Users"):
            self.assertEqual(
                home_findings({"README.md": f"first\nsee /{home}/someone/x"}), ["README.md:2: names a home folder"]
            )
        self.assertEqual(home_findings({"README.md": "/homely /rooted ~/x $HOME/x"}), [])


if __name__ == "__main__":
    unittest.main()
