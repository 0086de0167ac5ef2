# SPDX-License-Identifier: Apache-2.0
"""The lab: one HTML page that computes overlap, bucket and queue models in the browser, from a run's numbers where one
is given. It loads nothing from anywhere.

``numbers`` takes from a run what the page starts from, ``page`` puts the files of this folder into one. ``model.js`` is
the arithmetic and knows no picture; ``tests/golden/lab_values.json`` holds it to the C++ that it repeats.
"""
