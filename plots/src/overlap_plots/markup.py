# SPDX-License-Identifier: Apache-2.0
"""HTML elements in which text stays text.

A ``Markup`` is finished HTML and only ``element`` and ``join`` make it; every other string that is put into an element
is escaped, and so is the value of every attribute. Names of elements and attributes are this program's, never a run's.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TypeAlias

from overlap_plots.style import plain


class Markup(str):
    """HTML, escaped already."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | None"

_EMPTY = frozenset({"br", "img", "meta", "link", "hr"})  # elements that have no end


def element(name: str, *children: Child, **attributes: str | None) -> Markup:
    """``element("th", "t < 1", scope="col")`` is ``<th scope="col">t &lt; 1</th>``. What is None is left out; an
    attribute's trailing underscore goes, its others become hyphens (``class_``, ``aria_label``)."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Sequence[Child], between: str = "") -> Markup:
    """One after the other, strings escaped."""
    known = [child for child in children if child is not None]
    return Markup(between.join(child if isinstance(child, Markup) else _escaped(child) for child in known))


def _escaped(text: str) -> str:
    return html.escape(plain(text), quote=True)
