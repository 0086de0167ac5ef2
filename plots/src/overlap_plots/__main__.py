# SPDX-License-Identifier: Apache-2.0
"""``python -m overlap_plots`` is the console script ``overlap-plots``."""

import sys

try:
    from overlap_plots.cli import main
except ModuleNotFoundError as error:
    if error.name not in ("matplotlib", "numpy", "pandas"):
        raise
    sys.exit(
        f"overlap-plots: {sys.executable} has no {error.name}; type: apt-get install python3-matplotlib python3-pandas "
        "(or python3 -m venv .venv && .venv/bin/python -m pip install ./plots, and run it with .venv/bin/python)"
    )

if __name__ == "__main__":
    sys.exit(main())
