"""Summaries of sets: right against scipy set by set, the same for every form of sets, and learnt from training sets only."""

import pickle

import numpy as np
import pytest
import torch
from batches import make_batch
from evaluate.drawn_sets import RAGGED, assert_rows_agree, draw, every_summary, every_transformer, tolerance_of
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from orderless.evaluate import CoefficientOfVariation, ElementContrast, EmbeddingContrast, MeanEmbedding, MomentSummary

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def moments_of(x):
    """(F, 9) by scipy and numpy, for one set."""
    columns = [x.mean(0), x.std(0), stats.skew(x), stats.kurtosis(x), *np.quantile(x, QUANTILES, axis=0)]
    return np.stack(columns, 1)


# ------------------------------------------------------------------------------------------------------------- moments


@pytest.mark.parametrize(
    "sizes", [RAGGED[:1] + [n for n in RAGGED if n > 2], [40] * 9, [2000, 5]], ids=["ragged", "equal", "few"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_are_those_of_scipy_set_by_set(sizes, dtype):
    sets = draw(sizes, dtype=dtype)
    rows = MomentSummary().fit_transform(sets)
    assert rows.dtype == np.float64
    assert_rows_agree(rows, [moments_of(x.astype(np.float64)).ravel() for x in sets])


def test_moments_survive_a_huge_offset():
    # multiples of 2**-20 are exact at an offset of 2**20, so that the only rounding is that of the statistics
    spread = np.round(np.random.default_rng(0).normal(size=(500, 2)) * 2**10) / 2**20
    near, far = moments_of(spread), MomentSummary().fit_transform([spread + 2.0**20]).reshape(2, 9)
    far[:, [0, 4, 5, 6, 7, 8]] -= 2.0**20
    # locations are rounded to 1e6 x 2.2e-16 = 2.3e-10; spread and shape do not see the offset at all
    np.testing.assert_allclose(far[:, [0, 4, 5, 6, 7, 8]], near[:, [0, 4, 5, 6, 7, 8]], rtol=0, atol=5e-10)
    assert_rows_agree(far[:, 1:4], near[:, 1:4])


@pytest.mark.parametrize("scale", [1e-160, 1e150])
def test_skewness_and_kurtosis_survive_any_scale(scale):
    x = draw([50], 1)[0]
    found = MomentSummary().fit_transform([x * scale])
    assert_rows_agree(found[0, 2:4], moments_of(x)[0, 2:4])


@pytest.mark.parametrize("value", [0.1, 1e6 / 3, -7.0, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_feature_has_no_spread_and_no_shape(value, dtype):
    row = MomentSummary().fit_transform([np.full((13, 1), value, dtype)])[0]
    assert row[1:4].tolist() == [0, 0, 0]
    # a quantile of equal numbers is that number; so is their mean, computed around the middle of their range
    assert (row[[0, 4, 5, 6, 7, 8]] == float(dtype(value))).all()


def test_a_single_element_is_its_own_mean_and_quantiles():
    row = MomentSummary().fit_transform([np.array([[3.0, -4.0]])]).reshape(2, 9)
    np.testing.assert_array_equal(row, [[3, 0, 0, 0, 3, 3, 3, 3, 3], [-4, 0, 0, 0, -4, -4, -4, -4, -4]])


def test_identical_elements_have_no_shape_after_projection_either():
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(20, 50)), np.tile(rng.normal(size=50), (37, 1))]
    row = MomentSummary(max_features=3).fit_transform(sets)[1].reshape(3, 9)
    np.testing.assert_array_equal(row[:, 1:4], 0)


def test_elements_that_differ_in_no_component_have_no_shape():
    rng = np.random.default_rng(0)
    along, across = np.linalg.qr(rng.normal(size=(50, 2)))[0].T
    summary = MomentSummary(max_features=1).fit([rng.normal(size=(400, 1)) * along])
    row = summary.transform([rng.normal(size=(37, 1)) * across])[0]  # projected, these elements differ by rounding alone
    np.testing.assert_array_equal(row[1:4], 0)


def test_other_quantiles_may_be_asked_for():
    sets = draw([11, 4])
    rows = MomentSummary((0.0, 1.0)).fit_transform(sets).reshape(2, 4, 6)
    np.testing.assert_array_equal(rows[:, :, 4], [x.min(0) for x in sets])
    np.testing.assert_array_equal(rows[:, :, 5], [x.max(0) for x in sets])
    assert MomentSummary(()).fit_transform(sets).shape == (2, 16)


def test_names_tell_features_from_principal_components():
    sets = draw([5, 6])
    assert MomentSummary((0.5,)).fit(sets).get_feature_names_out()[:6].tolist() == [
        "x0_mean", "x0_std", "x0_skewness", "x0_kurtosis", "x0_quantile_0.5", "x1_mean",
    ]  # fmt: skip
    assert MomentSummary((0.5,), 2).fit(sets).get_feature_names_out()[5] == "pc1_mean"


def test_images_are_flattened_and_projected():
    images = torch.rand(6, 5, 3, 8, 8)
    summary = MomentSummary(max_features=7)
    assert summary.fit_transform(images).shape == (6, 7 * 9)
    assert summary.n_features_in_ == 192


# -------------------------------------------------------------------------------------------- coefficient of variation


def test_the_coefficient_of_variation_is_a_percentage_of_the_mean():
    sets = draw([50, 3, 1])
    wanted = [[100 * x[:, 2].std() / x[:, 2].mean()] for x in sets]
    assert_rows_agree(CoefficientOfVariation(2).fit_transform(sets), wanted)
    assert CoefficientOfVariation(2).get_feature_names_out().tolist() == ["x2_cv"]


def test_the_coefficient_of_variation_refuses_standardised_features():
    sets = draw([500, 500])
    standardised = [(x - x.mean(0)) / x.std(0) + 0.1 for x in sets]  # 0.1: a mean that is above 0, but not clearly
    with pytest.raises(ValueError, match=r"clearly positive.*own units"):
        CoefficientOfVariation().fit(standardised)


def test_the_coefficient_of_variation_takes_what_cannot_be_negative():
    wild = np.random.default_rng(0).lognormal(sigma=2.5, size=(4, 1000, 1))  # a mean far below the standard deviation
    assert (CoefficientOfVariation().fit_transform(wild) > 100).all()


def test_the_coefficient_of_variation_needs_a_positive_mean_in_every_set():
    summary = CoefficientOfVariation().fit(draw([20, 20]))
    with pytest.raises(ValueError, match="every set"):
        summary.transform([-draw([5])[0]])


# ---------------------------------------------------------------------------------------------------------- embeddings


def test_the_embedding_approximates_the_kernel():
    x = np.random.default_rng(0).normal(size=(20, 3))
    summary = MeanEmbedding(20_000, gamma=0.3).fit([x])
    rows = summary.transform([x[i : i + 1] for i in range(20)])
    z = (x - x.mean(0)) / x.std(0)
    # 10,000 random frequencies: standard error at most 1 / sqrt(2 x 10,000) = 0.007; 400 pairs stay within 5 of it
    np.testing.assert_allclose(rows @ rows.T, np.exp(-0.3 * cdist(z, z, "sqeuclidean")), atol=0.035)


def test_the_embedding_of_a_set_is_the_mean_over_its_elements():
    sets = draw([5000, 3, 40])  # 5,000 elements are more than one chunk
    summary = MeanEmbedding(32).fit(sets)
    single = summary.transform([row[None] for x in sets for row in x])
    wanted = [part.mean(0) for part in np.split(single, np.cumsum([5000, 3]))]
    np.testing.assert_allclose(summary.transform(sets), wanted, atol=1e-5)  # float32


# ------------------------------------------------------------------------------------------------- true of all of them


@every_summary
def test_the_order_of_elements_does_not_matter(make):
    sets = draw(RAGGED)
    summary = make().fit(sets)
    turned = [x[np.random.default_rng(n).permutation(len(x))] for n, x in enumerate(sets)]
    np.testing.assert_allclose(summary.transform(turned), summary.transform(sets), rtol=1e-5, atol=1e-5)  # float32
    if type(summary) is MomentSummary and summary.max_features > 2:
        np.testing.assert_array_equal(summary.transform(turned), summary.transform(sets))  # sorted first: equal to the bit


@every_transformer
def test_the_batch_size_does_not_matter(make):
    sets = draw(RAGGED)
    whole, single = make(batch_size=100), make(batch_size=1)
    assert_rows_agree(single.fit_transform(sets), whole.fit_transform(sets), tolerance_of(whole))
    assert_rows_agree(single.transform(sets[:3]), whole.transform(sets)[: len(single.transform(sets[:3]))], tolerance_of(whole))


@every_summary
def test_an_empty_set_gets_the_average_row_of_the_training_sets(make):
    sets = draw([30, 0, 8, 20])
    summary = make()
    rows = summary.fit_transform(sets)
    assert np.isfinite(rows).all()
    assert_rows_agree(rows[1], rows[[0, 2, 3]].mean(0))
    np.testing.assert_array_equal(summary.transform(draw([0, 5]))[0], rows[1])
    np.testing.assert_array_equal(summary.transform(draw([0, 0]))[1], rows[1])


@every_transformer
def test_awkward_sizes_give_finite_rows(make, sizes):
    transformer = make().fit(draw([9, 4, 6]))
    batch = make_batch(sizes)
    rows = transformer.transform(batch.with_x(batch.x.abs()))
    assert np.isfinite(rows).all()
    assert len(rows) == (sum(sizes) if isinstance(transformer, ElementContrast | EmbeddingContrast) else len(sizes))
    assert rows.shape[1] == len(transformer.get_feature_names_out())


@every_transformer
def test_elements_that_never_vary_give_finite_rows(make):
    same = np.full((3, 7, 4), 0.1)
    assert abs(make().fit_transform(same)).max() <= 1


@every_transformer
def test_fit_is_fit_transform_without_the_rows(make):
    sets = draw(RAGGED)
    assert_rows_agree(make().fit(sets).transform(sets), make().fit_transform(sets), tolerance_of(make()))


@every_transformer
def test_only_training_sets_are_learnt_from(make):
    train, test = draw([20] * 6), draw([20] * 3, seed=1)
    transformer = make().fit(train)
    before = pickle.dumps(vars(transformer))
    first = transformer.transform(test)
    transformer.transform([1000 * x for x in test])
    assert pickle.dumps(vars(transformer)) == before
    np.testing.assert_array_equal(transformer.transform(test), first)


@every_transformer
def test_cloned_and_pickled_transformers_are_the_same(make):
    sets = draw(RAGGED)
    transformer = make(batch_size=4).fit(sets)
    again = pickle.loads(pickle.dumps(transformer))
    np.testing.assert_array_equal(again.transform(sets), transformer.transform(sets))
    fresh = clone(transformer)
    assert fresh.get_params() == transformer.get_params()
    with pytest.raises(NotFittedError):
        fresh.transform(sets)
    np.testing.assert_array_equal(fresh.fit(sets).transform(sets), transformer.transform(sets))


@every_transformer
def test_no_sets_give_no_rows(make):
    transformer = make().fit(draw([5, 6]))
    assert transformer.transform([]).shape == (0, len(transformer.get_feature_names_out()))


@every_transformer
def test_integers_and_half_precision_are_numbers_too(make):
    sets = [np.arange(1, 21).reshape(5, 4), np.arange(3, 15).reshape(3, 4)]
    wanted = make().fit_transform([x.astype(np.float64) for x in sets])
    tolerance = max(tolerance_of(make()), 1e-6)  # components learnt in float32 where elements are
    assert_rows_agree(make().fit_transform(sets), wanted, tolerance)
    halves = [torch.from_numpy(x).to(torch.bfloat16) for x in sets]  # whole numbers up to 20 are exact
    np.testing.assert_allclose(make().fit_transform(halves), wanted, rtol=1e-4, atol=1e-4)


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("make", "sets", "message"),
    [
        (MomentSummary, [], "at least one set"),
        (MomentSummary, [np.zeros((0, 2))], "at least one element"),
        (MeanEmbedding, [np.zeros((0, 2))], "at least one element"),
        (CoefficientOfVariation, [np.zeros((0, 2))], "at least one element"),
        (MomentSummary, [np.array([[1.0], [np.nan]])], "finite"),
        (MomentSummary, np.zeros((3, 2)), r"\(N, M, D\)"),
        (MomentSummary, [np.ones((2, 1), dtype=complex)], "real numbers"),
        (lambda: MomentSummary((50,)), draw([3]), "between 0 and 1"),
        (lambda: MomentSummary(max_features=0), draw([3]), "max_features"),
        (lambda: MomentSummary(batch_size=0), draw([3]), "batch_size"),
        (lambda: CoefficientOfVariation(4), draw([3]), r"0\.\.3, got 4"),
        (lambda: MeanEmbedding(7), draw([3]), "even"),
        (lambda: MeanEmbedding(gamma=-1.0), draw([3]), "gamma"),
        (lambda: MeanEmbedding(gamma="mean"), draw([3]), "gamma"),
    ],
)
def test_errors_say_what_was_expected(make, sets, message):
    with pytest.raises(ValueError, match=message):
        make().fit(sets)


def test_elements_must_be_those_that_were_fitted_to():
    with pytest.raises(ValueError, match="4 numbers, got elements of 3"):
        MomentSummary().fit(draw([3])).transform(draw([3], 3))
