"""Numbers as readers see them."""

import math
import pickle

import pytest

from orderless.numbers import AsPrinted, duration, need_logarithms, plain, setting, spread, tick, with_interval

TIMES = "\N{MULTIPLICATION SIGN}"
NUMBERS = {
    0.0198: "0.01980",
    25.8791: "25.88",
    0.0: "0",
    8.0: "8.000",
    12345.678: "12,350",
    2.5e-7: f"2.5 {TIMES} 10⁻⁷",
    1e9: "10⁹",
    -3e7: f"-3 {TIMES} 10⁷",
    math.inf: "∞",
    -math.inf: "-∞",
    math.nan: "not a number",
}


@pytest.mark.parametrize(("value", "text"), NUMBERS.items(), ids=NUMBERS.values())
def test_numbers_have_four_digits(value, text):
    assert plain(value) == text


def test_a_figure_has_as_many_decimals_as_its_interval_makes_sense_of():
    assert with_interval(8.2511, (7.8012, 8.7188)) == ("8.25", "[7.80, 8.72]")
    assert with_interval(0.0198, (0.01782, 0.02178)) == ("0.0198", "[0.0178, 0.0218]")
    assert with_interval(0.1, (0.1, 0.1)) == ("0.1000", "[0.1000, 0.1000]")
    assert with_interval(2e-7, (1e-7, 3e-7)) == (f"2 {TIMES} 10⁻⁷", f"[10⁻⁷, 3 {TIMES} 10⁻⁷]")
    assert with_interval(8.25, None) == ("8.250", "")


def test_a_number_as_printed_is_a_number_all_the_same():
    assert AsPrinted("0.4520") == 0.452
    assert pickle.loads(pickle.dumps(AsPrinted("1.50"))).text == "1.50"


def test_published_figures_stay_as_printed():
    assert spread(AsPrinted("0.4520"), AsPrinted("0.0111")) == "0.4520 ± 0.0111"
    assert spread(0.452, None) == "0.4520"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "0.012 s"),
        (42.4, "42 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (100_000, "27 h 46 min"),
        (200_000, "2 d 7 h"),
        (59.7, "1 min 0 s"),
    ],
)
def test_times_read_well(seconds, text):
    assert duration(seconds) == text


def test_ticks_have_no_more_digits_than_they_need():
    values = (0.001, 0.05, 20.0, 2500.0, 1e-5, 2e-12, 1e9, 0.0)
    assert [tick(value) for value in values] == ["0.001", "0.05", "20", "2,500", "10⁻⁵", f"2 {TIMES} 10⁻¹²", "10⁹", "0"]


def test_what_somebody_chose_keeps_its_digits():
    assert [setting(value) for value in (0.01, 0.0003, 1e-5, 2.0)] == ["0.01", "0.0003", "10⁻⁵", "2"]


def test_numbers_need_logarithms_where_they_span_much_and_have_them():
    assert need_logarithms([0.02, 8.0])
    assert not need_logarithms([18.7, 25.9])
    assert not need_logarithms([0.0, 8.0]), "zero has no logarithm"
    assert not need_logarithms([-1.0, 900.0])
    assert not need_logarithms([])
