"""Plants small faults in the viewer's scripts, one at a time; each must fail a parity check.

    python -m scripts.js_mutants            all of them, about two minutes
    python -m scripts.js_mutants "raw cut"  those whose name holds this

The faults are made in the text of the bundle, in memory. Exits 1 where one survives, or where the
checks fail without any.
"""

from __future__ import annotations

import sys

from playwright.sync_api import Error, Page, sync_playwright

from macd_studio.viewer import bundle
from tests.browser.conftest import FLAGS, chromium_path
from tests.browser.parity import CASES, ENTRIES, Case

MUTANTS: dict[str, tuple[str, str]] = {
    # masks
    "padding of boxes": ("sigmoid((i + 0.5 - low + grow)", "sigmoid((i + 0.5 - low)"),
    "padding of outlines": (": -distance) + grow) * slope", ": -distance)) * slope"),
    "reach of outlines": ("grow + recipe.reach / slope", "grow + 1 / slope"),
    "feather of strokes": ("stroke.radius * short - Math", "2 * stroke.radius * short - Math"),
    "pixel centres": ("const y = row + 0.5 - ay", "const y = row - ay"),
    "hole in an outline": ("inside[row * width + column] ^= 1", "inside[row * width + column] = 1"),
    "ring left open": ("at[(i + 1) % at.length]", "at[Math.min(i + 1, at.length - 1)]"),
    "box without area": ("return box[2] > box[0] && box[3] > box[1];", "return true;"),
    "erased strokes": ("stroke.erase ?", "false ?"),
    "shape": ('recipe.shape === "box" ? null : ', ""),
    "sweep": ("recipe.swept ?", "false ?"),
    "overlap raw": ('recipe.overlap === "normalise" ?', "true ?"),
    "overlap shared without limit": ("Math.min(1, sum) / weighted", "1 / weighted"),
    "overlap by confidence": ("weighted += mask[i] * weight", "weighted += mask[i]"),
    "frame mask whole": ('recipe.frame_mask === "whole"', "false"),
    "frame mask off": ('trace.mask.frame_mask === "off" ? 0 : applied', "applied"),
    "frame mask inverted": ("covered.map((v) => 1 - v)", "covered.map((v) => v)"),
    "object level": ("objects: trace.final ? trace.final.level :", "objects:"),
    "dead band": ("strength > r0 + tau ?", "strength > r0 ?"),
    "dead band below": ("strength < r0 - tau ?", "strength < r0 ?"),
    "continuous strengths": ("if (between.value === null) return strength;", ""),
    "number of frame groups": ("Math.floor(trace.frame_fraction * frames.length)", "1"),
    "one group at least": (
        "trace.frame_fraction > 0 ? Math.max(1, few) : few",
        "few",
    ),
    "order of frame groups": (
        "(frame_strength[b] - trace.r0) - (frame_strength[a] - trace.r0)",
        "a - b",
    ),
    "frame level of a step": ("frames[group] : 0", "frames[0] : 0"),
    "strengths applied twice": ("0 : applied(levels.frame)", "0 : levels.frame"),
    "sum of frame mask": ('fusion === "sum" ? Math.min(1, out[i] + outside)', "false ? 0"),
    "object level of means": ("mean += share * strengths[k]", "mean += share"),
    "frame level of the first group": (
        "trace.final.frame_level[group]",
        "trace.final.frame_level[0]",
    ),
    "slope of equal masks": (
        "(joined.filter((z) => z === top).length + (outside === top ? 1 : 0))",
        "1",
    ),
    "slope of hidden masks": ('(fusion === "max" ? layers[k] : joined[0]) === top', "true"),
    "slope through the others": ("mask && k !== skip ? z *", "mask ? z *"),
    "slope of the frame mask": ("frame += share * frames[i]", "frame += share"),
    "slope of means": ("(weighs ? confidence : 1)", "1"),
    "object level before the ascent": (
        "trace.tracks.map(() => trace.r0)",
        "trace.tracks.map(() => 0.75)",
    ),
    "frame level left out": ("Math.max(out[i], outside)", "out[i]"),
    "frame level under or": ("(1 - frameLevel * masks.outside[i])", "1"),
    "fusion or": ("left[i] *= 1 - r * mask[i]", "left[i] = Math.min(left[i], 1 - r * mask[i])"),
    "fusion max": ("Math.max(out[i], r * mask[i])", "out[i] + r * mask[i]"),
    "fusion confidence": ('mask[i] * (fusion === "confidence" ?', "mask[i] * (false ?"),
    "fusion average without its outline": (
        "out[i] = (mean / total) * top",
        "out[i] = mean / total",
    ),
    # scores
    "raw cut": ('head === "raw" ? beta * baseTop : ', ""),
    "cut for β 0": (
        "beta > 0 ? baseTop + Math.log(beta) : null",
        "baseTop + Math.log(beta || 1e-3)",
    ),
    "log of β": ("baseTop + Math.log(beta)", "baseTop - 1 + beta"),
    "floor left out of the head": ("step.base[i] >= cut", "step.base[i] > cut"),
    "floor of the weights": (
        "weights.floor === null ?",
        "weights.floor === null || step.weights ?",
    ),
    "argmax outside of the head": (" || i === first", ""),
    "weights for α": ("weights = step.weights || linearWeights", "weights = linearWeights"),
    "weights of second views": ("weight * others[k][i]", "0"),
    "weight of the base": ("weights.base * step.base[i]", "step.base[i]"),
    "certificate: near the cut": ("logit >= floor - 2 * errors.video", "logit >= floor"),
    "certificate: short rows": (
        "leftOut = stored > floor - 2 * errors.video",
        "leftOut = false",
    ),
    "certificate: left out": ("<= stored + 2 * errors.video", "<= stored - 2"),
    "certificate: one passes": ("&& passes[place] && !weights.bias.length", "&& passes[place]"),
    "certificate: surely in": (
        "< weights.floor + 2 * errors.video",
        "< weights.floor - 2 * errors.video",
    ),
    "certificate: leader": ("rest(step.base) + 2 * errors.video", "rest(step.base)"),
    "certificate: spread": ("errors.video * Math.abs(weights.base));", "0);"),
    "certificate: error of the video": ("errors.video * Math.abs", "errors.second * Math.abs"),
    "certificate: error of others": ("errors.second * Math.abs", "errors.video * Math.abs"),
    "certificate: rivals": ("(passes[i] ? score : -Infinity)", "(score)"),
    "sign of α": ("others: [-alpha]", "others: [alpha]"),
    "bias": ("(bias.get(id) || 0)", "0"),
    "bias by place": ("(bias.get(id) || 0)", "(bias.get(i) || 0)"),
    "p before": ("Math.exp(step.base[i] - step.base_log_z)", "Math.exp(step.base[i] - baseTop)"),
    "p after": ("Math.exp(r.score - top) / total", "r.before"),
    "p after without its sum": ("Math.exp(r.score - top) / total", "Math.exp(r.score - top)"),
    "choice of the last tie": (
        "if (r.score > rows[chosen].score)",
        "if (r.score >= rows[chosen].score)",
    ),
    "exact where all is stored": ("Boolean(step.complete) || ", ""),
    "exact above the stored": ("(hasFloor && cut >= Number(step.floor))", "hasFloor"),
    # flips
    "head of the flips": ("rescore(step, 0, beta, head)", "rescore(step, 0, beta)"),
    "limit of the flips": ("if (first > high) return found;", ""),
    "second flip": (
        "(height - line.height) / (line.slope - slope)",
        "(height - line.height) / line.slope",
    ),
    "start of the flips": ("(start(line) > start(best) ||", "(start(line) < start(best) ||"),
    "cell before the flip": ("p.alpha <= a ?", "p.alpha <= a + 0.125 ?"),
    "cell after the flip": ("p.alpha <= a ?", "p.alpha <= a - 0.125 ?"),
    "order of bits": ("7 - (i & 7)", "i & 7"),
    # sentences
    "controls that agree for those that do not": (
        "one.same === same)",
        "one.same !== same)",
    ),
    "controls that do not agree, told as those that do": (
        "namesChoose(like, token), namesDoNotChoose(unlike, token)",
        "namesChoose(unlike, token), namesDoNotChoose(like, token)",
    ),
    "controls that change the answer, told as those that do not": (
        "namesChange(unlike), namesDoNotChange(like)",
        "namesChange(like), namesDoNotChange(unlike)",
    ),
    "controls that agree left out": ("namesChoose(like, token), ", ""),
    "controls that do not agree left out": ("namesDoNotChoose(unlike, token),", ""),
    "random masks that agree for those that do not": (
        "random.filter((outcome) => outcome.same)",
        "random.filter((outcome) => !outcome.same)",
    ),
    "all random masks for none": ("if (same === drawn) return", "if (same === 0) return"),
    "random masks that change nothing": (
        "randomChanges(random.length - same, random.length)",
        "randomChanges(same, random.length)",
    ),
    "one random mask": ("if (drawn === 1 && same)", "if (drawn === 1 && !same)"),
    "one random mask that changes the answer": (
        "if (drawn === 1 && changed)",
        "if (drawn === 1 && !changed)",
    ),
}
"""Name → text that occurs once in the bundle, and its replacement."""


def noticed_by(page: Page, cases: dict[str, Case], script: str) -> str | None:
    """The first case that fails, with what it fails by."""
    for name, case in cases.items():
        try:
            case.run(page, script)
        except (AssertionError, Error) as error:
            kind = "script error" if isinstance(error, Error) else "difference"
            return f"{name} ({kind})"
    return None


def main(part_of_name: str = "") -> int:
    """The exit status; tells which case noticed each fault."""
    script = bundle(*ENTRIES)
    cases = {name: make() for name, make in CASES.items()}
    survivors = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        page = browser.new_page()
        if trouble := noticed_by(page, cases, script):
            print(f"without any fault: {trouble}")
            return 1
        for name, (old, new) in MUTANTS.items():
            if part_of_name not in name:
                continue
            if script.count(old) != 1:
                raise SystemExit(f"{name}: {old!r} stands {script.count(old)} times in the bundle")
            noticed = noticed_by(page, cases, script.replace(old, new))
            print(f"{name:36} {noticed or 'SURVIVED'}", flush=True)
            if noticed is None:
                survivors.append(name)
        browser.close()
    print(f"{len(survivors)} survived")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
