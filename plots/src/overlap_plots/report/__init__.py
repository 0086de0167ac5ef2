# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML page of one or more runs that loads nothing: verdict in words, figures, cases, how to reproduce.

``verdict`` makes sentences of tables, ``pictures`` draws the figures into the page, ``sections`` puts what is known of
a run into elements, ``page`` puts all into one file. Colours, type and theme are the lab page's.
"""
