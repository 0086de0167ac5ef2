# SPDX-License-Identifier: Apache-2.0
"""A page of one file: style, script and data within, nothing loaded from anywhere.

Its content security policy names the hashes of its own style and script and forbids everything else, so that text of a
run stays text even if it got past the escaping, and a page that is opened years from now asks nobody for anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from overlap_plots.markup import Markup

_IMPORT = re.compile(r'^import \{[^}]*\} from "\.{1,2}/[a-z_/]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|function|class)", re.MULTILINE)


def join_modules(modules: Sequence[str]) -> str:
    """JavaScript modules as one, each after what it imports: their imports and the word export go, so that all share
    one scope; a name declared twice is a syntax error there, and its browser test says so."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)


def data_text(value: Any) -> str:
    """JSON for a script element: no ``<``, so that no tag ends it or begins a comment; no NaN, which is no JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def assemble(
    template: str,
    *,
    style: str,
    script: str,
    footer: str,
    measured: Any = None,
    markup: Mapping[str, Markup] | None = None,
) -> str:
    """The template with its places filled, each once and none within what was filled in. ``markup``: the places that a
    template has beside these, as elements that are escaped already."""
    if "</" in script or "</" in style:
        raise ValueError("a script or style with a closing tag would end its element")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    )
    filled = {
        **(markup or {}),
        "policy": policy,
        "style": style,
        "script": script,
        "measured": data_text(measured),
        "footer": html.escape(footer),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], template)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
