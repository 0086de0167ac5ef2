# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import json

import pytest

from overlap_plots.markup import element
from overlap_plots.webpage import assemble, data_text, join_modules

TEMPLATE = (
    '<meta content="{{policy}}"><style>{{style}}</style><p>{{footer}}</p><s>{{measured}}</s><script>{{script}}</script>'
)


def sha256(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def test_modules_become_one_scope() -> None:
    first = "// one\nexport const A = 1;\nexport function twice(x) {\n  return 2 * x;\n}\n"
    second = 'import { A, twice } from "./one.js";\nexport class B {}\nconst c = "export const stays";\n'
    assert join_modules([first, second]) == (
        '// one\nconst A = 1;\nfunction twice(x) {\n  return 2 * x;\n}\n\nclass B {}\nconst c = "export const stays";\n'
    )


def test_data_never_ends_its_script_element() -> None:
    hostile = {"name": "</script><script>alert(1)</script><!-- \u2028", "value": 0.1}
    text = data_text(hostile)
    assert "<" not in text
    assert json.loads(text) == hostile


def test_data_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        data_text({"value": float("nan")})


def test_the_policy_names_the_style_and_the_script_and_allows_nothing_else() -> None:
    page = assemble(TEMPLATE, style="p{}", script="go()", measured=[1], footer="<b>")
    assert page == (
        f"<meta content=\"default-src 'none'; img-src data:; style-src {sha256('p{}')}; script-src {sha256('go()')}; "
        "base-uri 'none'\"><style>p{}</style><p>&lt;b&gt;</p><s>[1]</s><script>go()</script>"
    )


def test_a_template_may_have_places_for_elements() -> None:
    page = assemble("{{policy}}|{{rows}}", style="", script="", footer="", markup={"rows": element("p", "{{policy}}<")})
    assert page.endswith("|<p>{{policy}}&lt;</p>")


def test_a_module_may_come_from_another_folder() -> None:
    assert join_modules(["export const a = 1;\n", 'import { a } from "../lab/theme.js";\na();\n']) == (
        "const a = 1;\n\na();\n"
    )


def test_what_was_filled_in_has_no_places() -> None:
    assert "{{script}}" in assemble(TEMPLATE, style="", script="", measured="{{script}}", footer="")


@pytest.mark.parametrize(("style", "script"), [("</style>", ""), ("", "'</script>'")])
def test_a_closing_tag_within_style_or_script_is_refused(style: str, script: str) -> None:
    with pytest.raises(ValueError, match="a script or style with a closing tag would end its element"):
        assemble(TEMPLATE, style=style, script=script, measured=None, footer="")
