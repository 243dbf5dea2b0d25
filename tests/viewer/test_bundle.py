"""Modules become one script, and what the bundler does not understand is refused."""

import re

import pytest

from macd_studio.viewer import JS, bundle
from macd_studio.viewer.bundle import BundleError
from macd_studio.viewer.export import standalone


@pytest.fixture
def modules(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.js").write_text(text)
        return tmp_path / f"{next(iter(texts))}.js"

    return write


def test_modules_stand_in_the_order_of_their_imports(modules):
    entry = modules(
        a='import { b } from "./b.js";\nimport {\n  c as sea,\n} from "./c.js";\n\n'
        "export const a = b + sea;\n",
        b='import { c } from "./c.js";\nexport function b() { return c; }\n',
        c="// import nothing\nconst hidden = 1;\nexport const c = hidden;\n",
    )
    text = bundle(entry)
    assert [text.index(f"// {name}.js") for name in "cba"] == sorted(
        text.index(f"// {name}.js") for name in "abc"
    )
    assert text.count("// c.js") == 1
    assert "const { c: sea } = m0;" in text
    assert not re.search(r"^\s*(import|export)\b", text, re.M)
    assert "return { a };" in text


def test_types_are_left_out_and_casts_leave_their_code(modules):
    entry = modules(
        a="/**\n * @param {number} x\n */\nexport function a(x) {\n"
        "  /** @type {any} */ (x).y = 1;\n  /** @type {number} */\n  const z = 1;\n"
        "  return z;\n}\n"
    )
    text = bundle(entry)
    assert "@param" not in text
    assert "@type {number}" not in text
    assert "(x).y = 1;" in text
    assert "const z = 1;" in text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("export default 3;", "not understood"),
        ("export { a };", "not understood"),
        ("export let a = 1;", "not understood"),
        ('import * as b from "./b.js";', "not understood"),
        ('import b from "./b.js";', "not understood"),
        ('import "./b.js";', "not understood"),
        ('import { b } from "b";', "not understood"),
        ('  import { b } from "./b.js";', "not understood"),
        ('const b = await import("./b.js");', "not understood"),
        ("const here = import.meta.url;", "not understood"),
        ('import { default: b } from "./b.js";', "not understood"),
        ('import { missing } from "./b.js";', "does not export missing"),
        ('import { x } from "./none.js";', "does not exist"),
        ('import { a } from "./a.js";\nexport const a = 1;', "a.js → a.js"),
        ('import { ring } from "./ring.js";\nexport const a = 1;', "a.js → ring.js → a.js"),
        ('const end = "</SCRIPT>";', "would end the element"),
        ('const comment = "<!-- ";', "would end the element"),
    ],
)
def test_what_is_not_understood_is_refused(modules, text, told):
    entry = modules(
        a=text,
        b="export const b = 1;\n",
        ring='import { a } from "./a.js";\nexport const ring = a;\n',
    )
    with pytest.raises(BundleError, match=told):
        bundle(entry)


def test_two_entries_share_their_modules_and_no_name(modules):
    one = modules(
        one='import { c } from "./c.js";\nexport const one = c;\n', c="export const c = 1;\n"
    )
    two = modules(two='import { c } from "./c.js";\nexport const two = c;\n')
    text = bundle(one, two)
    assert text.count("// c.js") == 1
    twice = modules(twice="export const one = 1;\n")
    with pytest.raises(BundleError, match="one name twice"):
        bundle(one, twice)


def test_every_module_is_checked_and_used():
    """A module without the mark would be checked all the same, but not by an editor."""
    script = bundle(JS / "standalone.js") + bundle(JS / "worker.js")
    for path in [*JS.rglob("*.js"), *(JS.parents[1] / "macd_ui" / "js").glob("*.js")]:
        assert path.read_text().startswith("// @ts-check\n"), path
        if JS in path.parents:
            assert f"// {path.name}\n" in script, path


def test_the_viewer_does_not_reach_for_the_page():
    """What is around it comes from whoever mounts it; standalone.js is such a one."""
    reaches = re.compile(r"\bwindow\b|document\.(?!create)|querySelector\(|gradio|macdSave")
    for path in JS.rglob("*.js"):
        if path.name != "standalone.js":
            found = reaches.findall(path.read_text())
            assert not found, f"{path.name}: {found}"


def test_an_exported_page_holds_one_script_and_its_policy(tmp_path):
    from tests.small_trace import small_trace

    html = standalone(small_trace())
    assert html.count("<script") == html.count("</script>") == 2  # the data, and the viewer
    assert 'type="module"' not in html
    policy = re.search(r'Content-Security-Policy"\s+content="([^"]*)"', html)[1]
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    )
