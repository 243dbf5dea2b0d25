"""The least-attended vision tokens alone, as SID has it."""

from __future__ import annotations

from macd_studio.core.backbones.base import Prune
from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.records import PrunedTokensView


def build(context: MethodContext) -> SecondView:
    """SID (Huo et al., ICLR 2025): one video, but this branch sees the least-attended tokens.

    Its public greedy path ignores β; here the cut holds for every search.
    """
    options = context.options.sid
    state = context.prefill(context.encoded.video, Prune(options.layer, options.ratio))
    grid = context.encoded.token_grid
    return SecondView(state, PrunedTokensView(options.layer, options.ratio, grid))
