# SPDX-License-Identifier: Apache-2.0
"""Draws and checks overlapbench run directories.

``load`` reads and validates a run directory, ``derive`` computes what the figures need (pure, frame to frame), each
file of ``figures`` draws one picture, ``render`` puts them on pages and saves them, ``check`` holds summary.csv to
samples.csv, ``lab`` is a page to try the models in.
"""
