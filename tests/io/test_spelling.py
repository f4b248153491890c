"""Which names are one name in two spellings (`spelling.py`)."""

import pytest

from orderless.io.spelling import ANY, check_groups, describe_alike, describe_difference, find_alike, show_apart, spelling

COMPOSED, DECOMPOSED = "Jos\u00e9", "Jose\u0301"
ALIKE = {
    "an accent of its own": (COMPOSED, DECOMPOSED),
    "an accent behind what is not seen": (COMPOSED, "Jose\u200b\u0301"),
    "wide letters": ("p1", "\uff50\uff11"),
    "one letter for two": ("file", "\ufb01le"),
    "a zero-width space": ("p1", "p1\u200b"),
    "a byte order mark": ("p1", "\ufeffp1"),
    "a soft hyphen": ("p1", "p\u00ad1"),
    "spaces around": ("p1", " p1\t"),
    "a space that does not break": ("p 1", "p\u00a01"),
    "two spaces": ("p 1", "p  1"),
    "decimals": ("12", "12.00"),
    "a number": ("12", 12.0),
}


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE.keys())
def test_names_that_look_the_same_have_one_spelling(one, other):
    assert spelling(one) == spelling(other)
    assert find_alike([one, "x", other, one]) == [[one, other]]
    assert len(set(show_apart([one, other]))) == (1 if isinstance(other, float) else 2)


@pytest.mark.parametrize(
    ("one", "other", "aside"),
    [
        ("pat1", "Pat1", "capitals"),
        ("\u0130", "i\u0307", "capitals"),
        ("1", "001", "zeros"),
        ("P1_2", "P001_02", "zeros"),
        ("p-1", "p_1", "dashes"),
        ("p 1", "p \u2013 1", "dashes"),
    ],
)
def test_capitals_zeros_and_dashes_matter_unless_left_aside(one, other, aside):
    assert spelling(one) != spelling(other)
    assert spelling(one, aside=[aside]) == spelling(other, aside=[aside])
    assert all(spelling(one, aside=[a]) != spelling(other, aside=[a]) for a in ANY if a != aside)


@pytest.mark.parametrize(("one", "other"), [("p1", "p10"), ("2.05", "2.5"), ("p1", "p-1"), ("1", "-1"), ("10", "1"), ("0", "")])
def test_names_that_differ_in_more_never_have_one_spelling(one, other):
    assert spelling(one, aside=ANY) != spelling(other, aside=ANY)


def test_the_difference_is_told_and_seen():
    assert describe_difference("S1", "s01") == "capitals and leading zeros"
    assert describe_difference("p-1", "p_1") == "dashes, underscores or spaces"
    assert describe_difference("p1", "p1 ") == "spaces"
    assert describe_difference("1", "1.0") == "decimals"
    assert describe_difference(COMPOSED, DECOMPOSED) == "characters that look alike or are not seen"
    assert show_apart([COMPOSED, DECOMPOSED]) == [r"'Jos\xe9'", r"'Jose\u0301'"]
    assert show_apart([COMPOSED, "Joseph"]) == [f"'{COMPOSED}'", "'Joseph'"]


def test_groups_have_one_spelling_and_numbers_always_do():
    check_groups([1, 1.0, 2, True])
    check_groups(["p1", "p2", "p1"])
    for other in ("P1", "p01", "p1 "):
        with pytest.raises(ValueError, match=r"groups must have one spelling each, but 'p1' and '.*' differ only by"):
            check_groups(["p1", "p2", other])


def test_what_may_be_one_is_told_with_an_example_a_count_and_what_to_do():
    (said,) = describe_alike(["pat1", "Pat1", "pat2", "PAT2", "pat3"])
    assert said.startswith("2 samples may be there under two names: 'pat1' and 'Pat1' differ in capitals alone, and others")
    assert "figures are too good: write each in one spelling, or give groups that keep them together." in said
    assert describe_alike(["pat1", "Pat1", "x"], ["a", "a", "b"]) == [], "of one group it is no leak"
    (said,) = describe_alike(["s1", "s2", "s3"], ["p-1", "p_1", "q"])
    assert said.startswith("1 group may be there under two names: 'p-1' and 'p_1' differ in dashes, underscores or spaces alone.")
    assert len(describe_alike(["s1", "S1"], ["p-1", "p_1"])) == 2
    assert describe_alike([], ["p", "q", "p"]) == describe_alike(["s1", "s2"]) == describe_alike(()) == []
