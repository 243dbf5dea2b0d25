"""What other objects would do: every choice is tried on the page, looked at, and made the masks."""

import re
from dataclasses import replace

import pytest

from macd_studio.core.records import Edit
from macd_studio.core.traces.bundle import load
from macd_studio.core.whatif.verdict import as_text, map_sentence, marks_of
from macd_studio.macd_ui.examples import examples
from macd_studio.viewer import payload, status
from tests.browser.states import show

TRY = re.compile("^Try all [0-9]+ combinations of ")


@pytest.fixture(scope="module")
def mapped():
    """The example that the page opens on, which has its map."""
    return load(examples()[0].trace)


def told(panel):
    return panel.locator(".mv-choice-told").inner_text()


@pytest.mark.long
def test_every_choice_is_looked_at_made_the_masks_and_tried_again(page, mapped):
    page.wait_for_selector(".mv-token")
    panel = page.locator(".mv-choices")
    nodes = panel.locator(".mv-choice")
    nodes.first.wait_for()
    layer = mapped.choice_map.layer(True)
    assert nodes.count() == len(layer) == 1 << len(mapped.tracks)
    assert panel.locator(".mv-choice-flips").count() == sum(s.flips for s in layer)
    assert map_sentence(mapped) == panel.locator(".mv-choices-text").inner_text()
    full = [str(t.id) for t, z in zip(mapped.tracks, mapped.counterfactual.level, strict=True)
            if z >= 1]  # fmt: skip
    marked = panel.locator(".mv-choice", has_text="MACD")
    assert marked.inner_text().split() == [*full, "MACD"]
    for name, ids in marks_of(mapped).items():
        other = panel.locator(".mv-choice", has_text=name)
        assert other.inner_text().split()[: len(ids)] == [str(i) for i in ids]
    assert "MACD's choice" in told(panel)  # as long as nothing else is looked at
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel.get_by_role("button", name="Copy verdict").click()
    panel.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == as_text(mapped)
    # the keyboard: one stop, arrows from box to box, Enter chooses
    marked.focus()
    frame = page.evaluate("document.querySelector('.mv-scrub').value")
    page.keyboard.press("ArrowRight")
    focused = page.locator(".mv-choice:focus")
    assert focused.get_attribute("aria-label") == told(panel)
    assert "MACD's choice" not in told(panel)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert focused.inner_text() == "none"
    assert page.evaluate("document.querySelector('.mv-scrub').value") == frame
    page.keyboard.press("Enter")
    assert focused.get_attribute("aria-pressed") == "true"
    panel.get_by_role("button", name="Mask these objects").click()
    edits = page.locator(".mv-whatif li")
    edits.nth(len(full) - 1).wait_for(state="attached")  # one change after the other
    panel.get_by_role("button", name=TRY).wait_for()
    assert edits.count() == len(full)
    panel.get_by_role("button", name=TRY).click()
    nodes.first.wait_for()
    assert nodes.count() == len(layer)
    assert panel.locator(".mv-choice", has_text="MACD").inner_text().split() == ["none", "MACD"]


def test_a_stored_map_is_shown_where_nothing_computes(bare, mapped):
    page = show(bare, mapped, 390)
    alone = "(data) => { window.viewer.host.send = null; window.viewer.update(data); }"
    page.evaluate(alone, payload(mapped))
    panel = page.locator(".mv-choices")
    layer = mapped.choice_map.layer(True)
    assert panel.locator(".mv-choice").count() == len(layer)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    panel.get_by_text("As a table").click()
    rows = panel.locator("tbody tr")
    assert rows.count() == len(layer)
    best = max(layer, key=lambda s: -float("inf") if s.margin is None else s.margin)
    answer = best.answer or mapped.answers["baseline"].text
    cells = rows.first.locator("th, td").all_inner_texts()
    assert (cells[0], cells[3]) == ("1", answer)
    without = sum(s.flips for s in mapped.choice_map.layer(False))
    panel.get_by_role("button", name="Without it").click()
    assert panel.locator(".mv-choice-flips").count() == without
    picture = "document.querySelector('[data-part=picture]').toDataURL()"
    panel.locator(".mv-choice").first.click()
    before = page.evaluate(picture)
    panel.locator(".mv-choice").last.click()
    assert page.evaluate(picture) != before  # its masks are on the picture
    assert not panel.get_by_role("button", name="Mask these objects").is_visible()
    page.evaluate(alone, payload(replace(mapped, choice_map=None)))
    assert [part.is_visible() for part in panel.all()] == [False, False]


def test_changes_go_on_though_an_earlier_state_is_told_again(bare, mapped):
    """Gradio repeats the last message of an event when it ends, which the next one may precede."""
    page = show(bare, mapped, 1440)
    tell = "(data) => window.viewer.update(data)"
    levels = {t.id: z for t, z in zip(mapped.tracks, mapped.counterfactual.level, strict=True)}
    other = next(s for s in mapped.choice_map.layer(True)
                 if sum((i in s.objects) != (z > 0) for i, z in levels.items()) == 2)  # fmt: skip
    made = [Edit("level", i, level=float(i in other.objects))
            for i, z in levels.items() if (i in other.objects) != (z > 0)]  # fmt: skip
    page.evaluate(tell, payload(mapped))
    panel = page.locator(".mv-choices")

    def ask():
        name = " ".join(map(str, other.objects)) or "none"
        panel.get_by_role("button", name="With MACD's frame mask").click()
        panel.locator(".mv-choice").filter(has_text=re.compile(f"^{name}(MACD)?$")).click()
        panel.get_by_role("button", name="Mask these objects").click()
        return page.evaluate("window.sent.map(({edit}) => edit.track)")

    assert ask() == [made[0].track]
    after = replace(mapped, edits=(made[0],), choice_map=None)  # a change takes it away
    page.evaluate(tell, payload(mapped))  # the state before, told once more: the change goes on
    assert panel.get_by_role("button", name="Mask these objects").is_disabled()
    page.evaluate(tell, payload(mapped, status(running=True)))
    page.evaluate(tell, payload(mapped))  # and once more after it began
    page.evaluate(tell, payload(after))
    assert page.evaluate("window.sent.map(({edit}) => edit.track)") == [e.track for e in made]
    page.evaluate(tell, payload(after, status(running=True)))
    assert panel.get_by_text("Change 2 of 2 by hand").is_visible()
    assert not panel.locator(".mv-choice").first.is_visible()
    page.evaluate(tell, payload(replace(after, edits=tuple(made))))
    assert not panel.get_by_text("by hand").is_visible()
    # one that was refused is the last
    page.evaluate("window.sent = []")
    page.evaluate(tell, payload(mapped))
    ask()
    page.evaluate(tell, payload(mapped, status(error="it cannot be", where="whatif")))
    page.evaluate(tell, payload(after))
    assert page.evaluate("window.sent.length") == 1
