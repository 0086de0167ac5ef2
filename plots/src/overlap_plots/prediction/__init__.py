# SPDX-License-Identifier: Apache-2.0
"""What the model predicted against what was measured.

``cases`` joins two runs by what was asked for (pure), ``figure`` draws the step times, ``table`` writes them.
"""
