# SPDX-License-Identifier: Apache-2.0
"""One file a figure; ``overlap_plots.registry.Figure`` says what a file provides."""
