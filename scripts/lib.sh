# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # the tables of packages are used by those that source this
# What quickstart and test share: talking, installing what is missing, building, finding a Python. Sourced, never run.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"

say() { printf '\n== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
# quietly <command>...: what it prints is shown only when it fails.
quietly() {
  local output
  output=$("$@" 2>&1 </dev/null) || {
    printf '%s\n' "$output" >&2
    return 1
  }
}
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# ------------------------------------------------------------------------------------------------------------- packages

# package, a command that serves as well when another source installed it (- for none), what it is for
BUILD_PACKAGES='
g++                 g++         the compiler
cmake               cmake       the build
ninja-build         ninja       runs the build
pkg-config          pkg-config  finds OpenBLAS and hwloc
git                 git         the revision that results name
libcli11-dev        -           command line
libfmt-dev          -           text
nlohmann-json3-dev  -           JSON
libbenchmark-dev    -           Google Benchmark: names, filter, JSON output
libopenblas-dev     -           GEMMs
libhwloc-dev        -           pinning threads to cores
python3             python3     plots and tests
'
PLOT_PACKAGES='
python3-matplotlib  -           plots
python3-pandas      -           plots
'
TEST_PACKAGES='
libgtest-dev        -           GoogleTest
libgmock-dev        -           GoogleTest
python3-venv        -           keeps the Python test tools in .venv
python3-pytest      -           plots with the pandas and matplotlib of the system, which the quickstart takes
libopenmpi-dev      -           the mpi transport, over Open MPI
openmpi-bin         mpiexec.openmpi  starts its processes
libmpich-dev        -           the mpi transport, over MPICH
mpich               mpiexec.mpich    starts its processes
ccache              ccache      a second build is quick
clang-format-14     -           formatting differs by version, so this one
clang               clang++     the second compiler
clang-tidy          clang-tidy  finds bugs in C++
shellcheck          shellcheck  finds bugs in scripts
nodejs              node        runs the trace processor of Perfetto on a timeline, and the arithmetic of the lab page
'
# Ubuntu has Chromium as a snap only: there the browser tests are skipped, and say so.
grep -qs '^ID=ubuntu' /etc/os-release || TEST_PACKAGES+='
chromium            chromium    shows the lab page and the report to their tests
'

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# install_missing <table>...: says what is missing and why, then installs it; asks for nothing where all is there.
install_missing() {
  local package stand_in why missing=()
  while read -r package stand_in why; do
    [ -n "$package" ] || continue
    if installed "$package" || { [ "$stand_in" != - ] && command -v "$stand_in" >/dev/null; }; then continue; fi
    note "missing: $package ($why)"
    missing+=("$package")
  done <<<"$(printf '%s\n' "$@")"
  if [ ${#missing[@]} -eq 0 ]; then
    note "all packages are there"
    return
  fi
  command -v apt-get >/dev/null || die "this system has no apt-get; install what is listed above by its own means and run this again"
  local as_root=(env DEBIAN_FRONTEND=noninteractive)
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "no right to install packages; as root, type: apt-get install ${missing[*]}"
    as_root=(sudo "${as_root[@]}")
    note "sudo is needed to install them"
  fi
  local apt=("${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  local install=("${apt[@]}" install -y --no-install-recommends "${missing[@]}")
  note "installing ${#missing[@]} packages"
  # The package lists of a fresh machine are absent, those of an old one are stale: fetched only when that shows.
  quietly "${install[@]}" 2>/dev/null && return
  quietly "${apt[@]}" update || quietly "${apt[@]}" update || die "apt-get update failed; is there a network?"
  quietly "${install[@]}" || die "apt-get could not install: ${missing[*]}"
}

# ---------------------------------------------------------------------------------------------------------------- build

# build <preset> [<cmake option>...]: configures and builds from few large pieces; quiet unless somebody watches.
build() {
  local quiet=()
  [ -t 1 ] || quiet=(-- --quiet)
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1
  fi
  quietly cmake --preset "$@" -DOVL_UNITY=ON && cmake --build --preset "$1" "${quiet[@]}"
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*//p')
  printf '3.25\n%s\n' "$version" | sort -CV ||
    die "cmake $version is too old: 3.25 is needed (Debian 12, Ubuntu 24.04); elsewhere type: python3 -m pip install cmake"
}

# --------------------------------------------------------------------------------------------------------------- python

# make_venv <what pip shall install>...: .venv holds it; done again only when the request or plots/pyproject.toml changed.
make_venv() {
  local stamp=.venv/installed wanted
  wanted=$(printf '%s\n' "$@" | cat - plots/pyproject.toml)
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return
  note "installing Python packages into .venv"
  python3 -m venv .venv && .venv/bin/python -m pip --quiet --disable-pip-version-check install "$@" &&
    printf '%s\n' "$wanted" >"$stamp"
}

# plot_python: prints a Python that has what plots need, if there is one.
plot_python() {
  local python
  for python in .venv/bin/python python3 /usr/bin/python3; do
    if "$python" -c 'import matplotlib, numpy, pandas' 2>/dev/null; then
      printf '%s\n' "$python"
      return
    fi
  done
}

# ------------------------------------------------------------------------------------------------------------------ runs

# new_run [<what>]: results/<host>[-<what>]-<date>, with a number when that is taken.
new_run() {
  local base name number=2
  base=results/$(uname -n | tr -c '[:alnum:]\n' - | cut -c1-40)${1:+-$1}-$(date -u +%Y-%m-%d)
  name=$base
  while [ -e "$name" ]; do
    name=$base-$number
    number=$((number + 1))
  done
  printf '%s\n' "$name"
}
