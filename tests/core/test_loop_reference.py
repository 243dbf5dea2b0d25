"""The decoding loop against one view at a time, on a model whose every row is looked up."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.base import Prune
from macd_studio.core.backbones.local import DecodeState
from macd_studio.core.decoding.answers import answer_in_batch, decode, decode_from, redecode
from macd_studio.core.decoding.batch import ViewBatch
from macd_studio.core.decoding.contrast import nucleus
from macd_studio.core.decoding.loop import decode_views
from macd_studio.core.decoding.steps import answer
from macd_studio.core.errors import NumericalError, OptionError
from macd_studio.core.macd import LinearContrast, mean_question_loss, query_loss
from macd_studio.core.options import ContrastOptions, DecodeOptions
from macd_studio.core.repeats import Repeats
from macd_studio.core.rules import Linear, MeanViews, Plain, score_token
from macd_studio.core.types import StepWeights

VOCABULARY, END = 9, 8


class TableLM:
    """Logits and hidden tokens are a function of a view's name and of what was decoded so far.

    `end_after` decoded tokens the end wins in every view; a cache that is changed in place, as
    those of real models are.
    """

    end_tokens = frozenset([END])
    info = SimpleNamespace(repetition_penalty=1.0)
    end_after = 5

    def row(self, view, tokens):
        rng = np.random.default_rng([ord(view), 17, *tokens])
        logits = rng.normal(size=VOCABULARY) * 3
        logits[END] = 100.0 if len(tokens) >= self.end_after else -50.0
        return logits

    def seen(self, view, tokens):
        return np.random.default_rng([ord(view), 5, *tokens]).random(6) < 0.5

    def state(self, rows, prompt, like=None):
        tokens = len(rows[0][1])
        made = DecodeState(
            torch.tensor(np.array([self.row(v, t) for v, t in rows])),
            [(v, list(t)) for v, t in rows],
            prompt + tokens,
            prompt,
            hidden=torch.tensor(np.array([self.seen(v, t) for v, t in rows])),
        )
        return made if like is None else replace(made, prune=like.prune)

    def prefill(self, view, prompt=10, prune=None):
        return replace(self.state([(view, [])], prompt), prune=prune)

    def join(self, states):
        assert len({(s.length, s.prompt, s.prune) for s in states}) == 1
        return self.state([r for s in states for r in s.cache], states[0].prompt, states[0])

    def select(self, state, rows):
        return self.state([state.cache[i] for i in rows], state.prompt, state)

    def crop(self, state, length):
        rows = [(v, t[: length - state.prompt]) for v, t in state.cache]
        nothing = torch.full_like(state.logits, torch.nan)  # until the next step
        return replace(self.state(rows, state.prompt, state), logits=nothing)

    def step(self, state, tokens):
        assert len(tokens) == len(state.cache)
        for (_, read), token in zip(state.cache, tokens, strict=True):
            read.append(token)
        return self.state(state.cache, state.prompt, state)

    def token_text(self, token):
        return "abcdefgh."[token]

    def text(self, tokens):
        return "".join(self.token_text(t) for t in tokens)


LM = TableLM()
PLAIN = Plain()
PRUNED = Prune(1, 0.5)
VIEWS = {"b": {}, "p": {"prompt": 4}, "q": {}, "r": {"prune": PRUNED}, "s": {"prompt": 4}}
"""The video b and views, some with a prompt or a pruning of their own."""


def states(names):
    return [LM.prefill(name, **VIEWS[name]) for name in names]


def rows_of(batch, index=0, rule=PLAIN):
    return [[row.values.tolist() for row in view] for view in batch.next_logits(index, rule)]


def table(names, *hypotheses):
    return [[LM.row(name, tokens).tolist() for tokens in hypotheses] for name in names]


@pytest.mark.parametrize("names", ["b", "bq", "bp", "bpq", "brq", "bpqrs", "bqps"])
def test_logits_stand_in_the_order_of_the_views(names):
    base, *others = states(names)
    batch = ViewBatch(LM, base, others)
    assert rows_of(batch) == table(names, [])
    batch.step([3])
    batch.step([1])
    assert rows_of(batch) == table(names, [3, 1])
    batch.crop(1)
    batch.step([7])
    assert rows_of(batch) == table(names, [3, 7])
    batch.crop(0)
    batch.step([2])
    assert rows_of(batch) == table(names, [2])
    assert [s.cache[0][1] for s in (base, *others)] == [[]] * len(names)
    # those of one length and one pruning share a cache
    shared = sum(VIEWS[n] == {} for n in names)
    assert sorted(len(s.cache) for s in batch.states) == sorted(
        [shared] + [1] * (len(names) - shared)
    )


@pytest.mark.parametrize("names", ["b", "bq", "bpq", "bpqrs"])
def test_hypotheses_are_kept_apart_under_every_view(names):
    base, *others = states(names)
    assert rows_of(ViewBatch(LM, base, others, 2)) == table(names, [], [])
    batch = ViewBatch(LM, base, others, 3)
    assert batch.rows == 3
    assert rows_of(batch) == table(names, [], [], [])
    batch.step([1, 2, 3])
    assert rows_of(batch) == table(names, [1], [2], [3])
    batch.select([2, 0, 0, 1])
    assert batch.rows == 4
    assert rows_of(batch) == table(names, [3], [1], [1], [2])
    batch.step([4, 5, 6, 7])
    assert rows_of(batch) == table(names, [3, 4], [1, 5], [1, 6], [2, 7])
    batch.select([3])
    batch.step([0])
    assert rows_of(batch) == table(names, [2, 7, 0])


def test_second_views_may_be_one_or_none():
    base, one = states("bq")
    assert rows_of(ViewBatch(LM, base, [])) == table("b", [])
    assert rows_of(ViewBatch(LM, base, [one])) == table("bq", [])
    assert len(ViewBatch(LM, base, []).states[0].cache) == 1


def test_what_a_view_hides_is_that_of_the_first_second_view():
    for names in ("bq", "bp", "bpq", "bqp", "brq", "bqr"):
        for count in (1, 3):
            base, *others = states(names)
            batch = ViewBatch(LM, base, others, count)
            batch.step(list(range(count)))
            expected = LM.seen(names[1], [0])
            assert batch.hidden().tolist() == expected.tolist()
            batch.states = [replace(s, hidden=None) for s in batch.states]
            assert batch.hidden() is None
    alone = ViewBatch(LM, *states("b"), [])
    assert alone.hidden() is None


def test_a_logit_that_is_not_finite_names_its_token():
    batch = ViewBatch(LM, *states("b"), [])
    batch.crop(0)
    with pytest.raises(NumericalError, match="token 5"):
        batch.next_logits(4, Plain())


class Drawn(TableLM):
    """Ends later, so that more is drawn."""

    end_after = 12


def decoded_one_by_one(
    lm, names, score, most, prefix=(), choose=lambda scores: int(np.argmax(scores))
):
    tokens = list(prefix)
    while len(tokens) < most:
        tokens.append(choose(score(*(lm.row(n, tokens) for n in names))))
        if tokens[-1] == END:
            break
    return tokens


def linear(alpha, beta):
    def score(z, other):
        made = (1 + alpha) * z - alpha * other
        made[z < z.max() + np.log(beta)] = -np.inf
        return made

    return score


RULE = Linear(ContrastOptions(2.0, 0.05))


@pytest.mark.parametrize("most", [1, 4, 20])
@pytest.mark.parametrize("names", ["bq", "bp"])
def test_greedy_tokens_are_those_of_the_formula(names, most):
    base, other = states(names)
    options = DecodeOptions(max_tokens=most, keep=2)
    steps = list(decode(LM, base, [other], RULE, options))
    tokens = decoded_one_by_one(LM, names, linear(2.0, 0.05), most)
    assert [s.token for s in steps] == tokens
    assert [s.index for s in steps] == list(range(len(tokens)))
    assert (len(tokens) == 6) == (most == 20)
    for i, step in enumerate(steps):
        z, other_z = (LM.row(n, tokens[:i]) for n in names)
        np.testing.assert_allclose(step.base, z[step.candidates], rtol=1e-6)
        np.testing.assert_allclose(step.others[0], other_z[step.candidates], rtol=1e-6)
        assert step.base_log_z == pytest.approx(np.log(np.exp(z).sum()))
        assert step.text == LM.token_text(step.token)
        assert step.hidden.tolist() == LM.seen(names[1], tokens[:i]).tolist()
        assert step.weights is None
        assert set(np.argsort(-z)[:2]) <= set(step.candidates.tolist())
    assert base.cache[0][1] == other.cache[0][1] == []


class Staggered(TableLM):
    """A view's letter and what was decoded say when the answer ends."""

    def row(self, view, tokens):
        logits = super().row(view, tokens)
        if tokens and len(tokens) >= 1 + tokens[0] % 4:
            logits[END] = 100.0
        return logits


@pytest.mark.parametrize("names", ["bq", "bp", "bpqrs"])
def test_each_hypothesis_is_decoded_as_if_alone_and_leaves_with_its_end(names):
    lm, count = Staggered(), 5
    made = [lm.prefill(name, **VIEWS[name]) for name in names]
    batch = ViewBatch(lm, made[0], made[1:], count)
    rngs = [np.random.default_rng(i) for i in range(count)]
    widths, found = [], [[] for _ in range(count)]

    def choose(row, scored):
        widths.append(batch.rows)
        z = scored.base.values
        return END if z[END] > 50 else int(rngs[row].integers(END))

    for item in decode_views(batch, PLAIN, choose, range(20), 2):
        assert item.step.index == len(found[item.row])
        found[item.row].append(item.step.token)
        z = lm.row("b", found[item.row][:-1])
        np.testing.assert_allclose(item.step.base, z[item.step.candidates], rtol=1e-6)
        hidden = lm.seen(names[1], found[item.row][:-1])  # of that hypothesis, wherever it lies
        assert item.step.hidden.tolist() == hidden.tolist()
    for i, tokens in enumerate(found):
        rng = np.random.default_rng(i)
        alone = decoded_one_by_one(
            lm, "b", lambda z: z, 20,
            choose=lambda z, rng=rng: END if z[END] > 50 else int(rng.integers(END)),
        )  # fmt: skip
        assert tokens == alone
    assert len({len(tokens) for tokens in found}) > 1
    assert len(widths) == sum(map(len, found))  # none is read after its end
    assert widths == sorted(widths, reverse=True)


def test_a_hypothesis_that_is_given_no_token_leaves():
    batch = ViewBatch(LM, *states("b"), [], 3)
    kept = list(decode_views(batch, PLAIN, lambda row, _: row if row else None, range(2), 2))
    assert [(item.row, item.step.token) for item in kept] == [(1, 1), (2, 2), (1, 1), (2, 2)]


@pytest.mark.parametrize("names", ["bqrs", "bspq"])
def test_answers_of_several_views_together_are_those_of_each(names):
    lm = Staggered()
    views = lm.state([(name, []) for name in names[1:]], 10)
    options = DecodeOptions(max_tokens=7, search="sample")
    texts = answer_in_batch(lm, lm.prefill("b"), views, [2, 0], RULE, options)
    expected = [decoded_one_by_one(lm, "b" + names[n], linear(2.0, 0.05), 7) for n in (3, 1)]
    assert texts == [lm.text(t for t in tokens if t != END) for tokens in expected]
    assert answer_in_batch(lm, lm.prefill("b"), views, [], RULE, options) == []


@pytest.mark.parametrize("first", [0, 2])
def test_a_rule_weighs_by_the_index_of_the_token(first):
    class Growing(Linear):
        """Counts the second view more from token to token."""

        def weigh(self, base, others, index):
            return StepWeights(1.0, (0.5 * index,))

    (base, other), prefix = states("bq"), [4, 1][:first]
    batch = ViewBatch(LM, base, [other], 1, DecodeOptions(max_tokens=5))
    for token in prefix:
        batch.step([token])
    rule = Growing(ContrastOptions(2.0, 0.05))
    made = [s.token for s in decode_from(batch, rule, first)]
    expected = list(prefix)
    for index in range(first, 5):
        z, z_other = (LM.row(name, expected) for name in "bq")
        expected.append(int((z + 0.5 * index * z_other).argmax()))
    assert made == expected[first:]


def test_rules_may_take_no_view_or_two():
    base, one, two = states("bqp")
    plain = decoded_one_by_one(LM, "b", lambda z: z, 9)
    steps = list(decode(LM, base, [], Plain(), DecodeOptions(max_tokens=9)))
    assert [s.token for s in steps] == plain
    assert steps[0].hidden is None
    mean = MeanViews(ContrastOptions(2.0, 0.05))
    both = list(decode(LM, base, [one, two], mean, DecodeOptions(max_tokens=9)))
    score = linear(2.0, 0.05)
    expected = decoded_one_by_one(LM, "bqp", lambda z, a, b: score(z, (a + b) / 2), 9)
    assert [s.token for s in both] == expected
    assert both[0].weights is not None
    assert len(both[0].others) == 2


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("first", [0, 2])
def test_samples_are_drawn_from_the_nucleus_by_their_seed(seed, first):
    lm = Drawn()
    base, other = states("bq")
    options = DecodeOptions(
        search="sample", seed=seed, temperature=9.0, top_p=0.8, max_tokens=11, keep=9
    )
    batch, prefix = ViewBatch(lm, base, [other], 1, options), [4, 1][:first]
    for token in prefix:
        batch.step([token])
    rng, score = np.random.default_rng([seed, first]), linear(2.0, 0.05)

    def draw(scores):
        p = nucleus(scores, 9.0, 0.8)
        return int(rng.choice(VOCABULARY, p=p))

    expected = decoded_one_by_one(lm, "bq", score, 11, prefix, draw)[first:]
    made = list(decode_from(batch, RULE, first))
    assert [s.token for s in made] == expected
    assert [s.index for s in made] == list(range(first, 11))
    greedy = decoded_one_by_one(lm, "bq", score, 11, prefix)[first:]
    assert expected != greedy


def test_a_replaced_token_is_decoded_on_from():
    base, other = states("bp")
    batch = ViewBatch(LM, base, [other], 1, DecodeOptions(max_tokens=20, keep=9))
    steps = list(decode_from(batch, RULE))
    score = linear(2.0, 0.05)
    for index, token in ((2, 6), (0, 3), (1, 0)):
        prefix = [s.token for s in steps[:index]] + [token]
        follow = list(redecode(batch, index, token, RULE))
        expected = decoded_one_by_one(LM, "bp", score, 20, prefix)
        assert [s.token for s in follow] == expected[index + 1 :]
        assert [s.index for s in follow] == list(range(index + 1, len(expected)))
        steps = [SimpleNamespace(token=t) for t in expected]
    before = rows_of(batch)
    assert list(redecode(batch, 1, END, RULE)) == []
    assert rows_of(batch) == before


def test_an_answer_is_its_text_without_the_end():
    base, other = states("bq")
    steps = list(decode(LM, base, [other], RULE, DecodeOptions(keep=9)))
    whole = answer(LM, "mine", steps, RULE)
    assert whole.text == LM.text([s.token for s in steps[:-1]])
    assert (whole.method, whole.rule, whole.finished) == ("mine", "linear", True)
    assert (whole.alpha, whole.beta) == (2.0, 0.05)
    assert whole.tokens == tuple(steps)
    part = answer(LM, "mine", steps[:2], RULE)
    assert (part.text, part.finished) == (LM.text([s.token for s in steps[:2]]), False)


def test_nothing_is_selected_while_nobody_leaves():
    batch = ViewBatch(LM, *states("b"), states("q"), 2)
    batch.select = None
    made = list(decode_views(batch, PLAIN, lambda row, _: row + 1, range(3), 2))
    assert [item.step.token for item in made] == [1, 2] * 3


def by_hand(scores, lowered, penalty):
    """A repetition penalty: positive scores divided, others multiplied."""
    return [
        (z / penalty if z > 0 else z * penalty) if low else z
        for z, low in zip(scores, lowered, strict=True)
    ]


LOWERED = Repeats(2.0, np.array([True, False, True]))


@pytest.mark.parametrize("repeats", [None, LOWERED])
def test_a_token_that_the_video_decides_is_scored_by_it_alone(repeats):
    base = np.array([9.0, 1.0, 0.5])
    rule = Linear(ContrastOptions(2.0, 0.5))
    floor = 9.0 + np.log(0.5)
    weights, scores = score_token(rule, base, [], 3, repeats)
    assert weights == StepWeights(floor=pytest.approx(floor))
    assert scores.tolist() == [9.0 if repeats is None else 4.5, -np.inf, -np.inf]
    weights, scores = score_token(rule, base, [np.array([1.0, 0, 0])], 3, repeats)
    assert weights == StepWeights(3.0, (-2.0,), pytest.approx(floor))
    assert scores.tolist() == [25.0 if repeats is None else 12.5, -np.inf, -np.inf]
    open_row = np.array([9.0, 9.0, 0.5])
    weights, _ = score_token(rule, open_row, [], 3, repeats)
    assert weights.others == (-2.0,)


@pytest.mark.parametrize("repeats", [None, LOWERED])
def test_scores_have_the_bias_of_their_tokens_and_then_the_penalty(repeats):
    class Biased(Linear):
        def weigh(self, base, others, index):
            return StepWeights(1.0, (0.5,), bias=((7, 3.0), (9, -8.0 - index)))

    rule = Biased(ContrastOptions(2.0, 0.5))
    base, other, tokens = np.array([2.0, 1.5, 1.0]), np.array([1.0, 2.0, 4.0]), np.array([5, 7, 9])
    scores = score_token(rule, base, [other], 1, repeats, tokens)[1]
    plain = [2.5, 2.5 + 3.0, 3.0 - 9.0]
    expected = plain if repeats is None else by_hand(plain, LOWERED.at, 2.0)
    assert scores.tolist() == expected
    rule.weigh = lambda *_: StepWeights(1.0, (0.5, 0.5))
    with pytest.raises(OptionError, match="gave 2 weights"):
        score_token(rule, base, [other], 1)


@pytest.mark.parametrize(("head", "floor"), [("raw", 2.0), ("probability", 4.0 + np.log(0.5))])
def test_equations_8_and_9_as_weights(head, floor):
    base = np.array([4.0, 3.0, 1.0])
    made = LinearContrast(ContrastOptions(1.5, 0.5, head)).weigh(base, [base], 7)
    assert made == StepWeights(2.5, (-1.5,), pytest.approx(floor))


def test_the_loss_is_the_mean_and_memory_is_not_spared_unless_asked():
    assert mean_question_loss(np.array([-1.0, -3.0])) == 2.0
    asked = []

    def query_logits(encoded, video, *given):
        asked.append(given)
        return torch.zeros(2, 4)

    encoded = SimpleNamespace(input_ids=torch.tensor([[1, 2, 3]]), query=torch.tensor([1, 2]))
    loss = query_loss(SimpleNamespace(query_logits=query_logits), encoded, torch.zeros(1))
    assert asked == [(False, None, None)]
    assert float(loss) == pytest.approx(np.log(4))
