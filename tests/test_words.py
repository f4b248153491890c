"""Words of messages."""

import pytest

from orderless.words import capitalized, counted, did_you_mean, shortened

KNOWN = ["deep_sets", "deep_sets++", "Set_Transformer"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("deep_set", "deep_sets"), ("DEEP_SETS++", "deep_sets++"), ("set_transfomer", "Set_Transformer"), ("deepsets", "deep_sets")],
)
def test_the_closest_word_is_offered_as_it_is_written(word, meant):
    assert did_you_mean(word, KNOWN) == f" Did you mean {meant!r}?"


@pytest.mark.parametrize("word", ["perceiver", "", 3, None])
def test_nothing_is_offered_where_nothing_is_close(word):
    assert did_you_mean(word, KNOWN) == ""


def test_one_is_one_and_thousands_are_set_apart():
    assert [counted(n, "set") for n in (0, 1, 2, 12000)] == ["0 sets", "1 set", "2 sets", "12,000 sets"]


def test_only_the_first_letter_becomes_a_capital():
    assert [capitalized(text) for text in ("mean MSE", "ROC AUC", "")] == ["Mean MSE", "ROC AUC", ""]


def test_what_is_too_long_ends_in_a_mark_and_what_fits_stays():
    assert [shortened(text, 5) for text in ("", "abcde", "abcdef")] == ["", "abcde", "abcd…"]
