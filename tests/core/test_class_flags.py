"""Flags of option classes of their own: every field has one, and they give the class again."""

import argparse
from dataclasses import fields

import pytest

from macd_studio.core.cli.measuring import EVIDENCE, SEARCH
from macd_studio.core.errors import OptionError


def read(flags, *words):
    parser = argparse.ArgumentParser()
    flags.add(parser)
    return flags.options(parser.parse_args(words))


@pytest.mark.parametrize("flags", [EVIDENCE, SEARCH])
def test_without_a_flag_the_options_are_those_of_the_class(flags):
    assert read(flags) == flags.kind()
    assert [name for name, *_ in flags] == [one.name for one in fields(flags.kind)]
    assert all(words for *_, words in flags)


def test_lists_stand_in_one_word_and_boxes_are_given_again():
    found = read(
        EVIDENCE, "--kinds", "gradient,occlusion", "--knock-out", "2", "--knock-out", "3",
        "--knock-out-box", "0,0,0.5,1", "--layers", "1-3,8", "--no-lens", "--curves",
    )  # fmt: skip
    assert found.kinds == ("gradient", "occlusion")
    assert found.track_ids() == (2, 3)
    assert found.regions() == ((0.0, 0.0, 0.5, 1.0),)
    assert (found.lens, found.sanity, found.curves) == (False, True, True)


def test_what_the_class_refuses_is_refused():
    with pytest.raises(OptionError, match="budget"):
        read(SEARCH, "--budget", "1")
    assert read(SEARCH, "--no-search", "--keep", "2:1-4").kept() == (("2", (0, 3)),)
