"""Small parts of pages."""

from orderless.pages.parts import badge, mark, scrolling


def test_parts_say_what_they_are_and_escape_what_they_hold():
    assert mark("<A>", 9) == '<span class="mark c1">&lt;A&gt;</span>', "colours come round again"
    assert badge("better", "good") == '<span class="badge good">better</span>'
    assert badge("odd") == '<span class="badge">odd</span>'


def test_a_wide_table_can_be_reached_with_the_keyboard():
    assert 'tabindex="0" role="region" aria-label="Results"' in scrolling(badge("x"), "Results")
