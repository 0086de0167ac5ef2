# SPDX-License-Identifier: Apache-2.0
"""``python -m overlap_plots`` is the console script ``overlap-plots``."""

import sys

from overlap_plots.cli import main

if __name__ == "__main__":
    sys.exit(main())
