"""Simulated Flow-RBC: blood that could be blood, the same patients every time, and scores of simple predictors as published."""

from dataclasses import fields

import numpy as np
import pytest

from orderless.tasks.sources import simulated_flow_rbc as simulated
from orderless.tasks.sources.simulated_flow_rbc import COHORTS, PHENOTYPES, Patients, simulate_patients

NUM_PATIENTS, NUM_CELLS = 18_000, 1000
MANY = 200_000  # patients without cells
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
# What the page on Flow-RBC says of the population, from 400,000 patients for the targets and 3 x 121,344 for the regressions.
VARIANCE, ORACLE_GAIN, RDW_GAIN, MOMENTS_GAIN, ORACLE_ACCURACY = 25.88, 8.6, 0.03, 3.5, 0.61


def simulate(cohort="hematocrit", num_patients=100, **options):
    blocks = list(simulate_patients(cohort, num_patients, **options))
    return Patients(*(np.concatenate([getattr(block, field.name) for block in blocks]) for field in fields(Patients)))


def assert_same(one, other):
    for field in fields(Patients):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


def marginal_moments(x):  # (N, M) -> (N, 9), the paper's hand-crafted statistics
    mean, std = x.mean(1), x.std(1)
    z = (x - mean[:, None]) / std[:, None]
    places = [round(q * (x.shape[1] - 1)) for q in QUANTILES]
    square = z * z
    return np.column_stack([mean, std, (square * z).mean(1), (square * square).mean(1), np.sort(x, axis=1)[:, places]])


def joint_summaries(volume, concentration):  # (N, M) each -> (N, 4)
    size = np.log(volume)
    z = (size - size.mean(1, keepdims=True)) / size.std(1, keepdims=True)
    slope = (z * concentration).mean(1)
    pale = concentration < concentration.mean(1, keepdims=True) - 3.5
    unusual_size = (volume.mean(1) - 90) ** 2
    return np.column_stack([slope, unusual_size / (36 + unusual_size), (pale & (z > 0.5)).mean(1), (pale & (z < 0)).mean(1)])


@pytest.fixture(scope="module")
def hematocrits():
    return simulate(num_patients=MANY, num_cells=0, seed=3)


@pytest.fixture(scope="module")
def anemias():
    return simulate("anemia", MANY, num_cells=0, seed=5)


@pytest.fixture(scope="module")
def cohort():
    """Summaries of many patients: one array each, the cells themselves are let go."""
    rows = []
    for block in simulate_patients("hematocrit", NUM_PATIENTS, num_cells=NUM_CELLS, seed=11):
        volume, content = block.cells[..., 0], block.cells[..., 1]
        concentration = 100 * content / volume  # g/dL
        assert np.isfinite(block.cells).all()
        assert (block.cells > 0).all()
        spread = block.cells - block.cells.mean(1, keepdims=True)
        rows.append({
            "mean_volume": volume.mean(1),
            "rdw": 100 * volume.std(1) / volume.mean(1),
            "concentration": concentration.mean(1),
            "concentration_sd": concentration.std(1),
            "correlation": spread.prod(2).sum(1) / np.sqrt((spread**2).sum(1).prod(1)),
            "moments": np.column_stack([marginal_moments(volume), marginal_moments(content)]).astype(np.float64),
            "joint": joint_summaries(volume, concentration).astype(np.float64),
            "oracle": block.oracle.astype(np.float64),
            "phenotype": block.phenotype,
        })  # fmt: skip
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def gain(features, expected):
    """How much less than a constant linear regression scores: the variance of the target that it explains.

    The noise of the target is independent of the cells, so the expected target may stand in for it. It has the same gain with a
    third of the sampling error. The fit is scored on its own patients: 23 coefficients for 18,000 patients change it by 0.01.
    """
    x = np.column_stack([np.ones(len(expected)), (features - features.mean(0)) / features.std(0)])
    fitted = x @ np.linalg.lstsq(x, expected, rcond=None)[0]
    return fitted.var()


# The ranges of physiology below are as wide as what they describe: sampling errors are far smaller at 18,000 patients.


def test_mean_volume_is_90_fl_with_an_sd_of_6_between_patients(cohort):
    assert cohort["mean_volume"].mean() == pytest.approx(90, abs=1.5)
    assert cohort["mean_volume"].std() == pytest.approx(6, abs=0.6)


def test_rdw_is_between_11_and_25_percent(cohort):
    assert cohort["rdw"].min() > 11
    assert cohort["rdw"].max() < 25
    assert np.median(cohort["rdw"][cohort["phenotype"] == 0]) == pytest.approx(13.5, abs=0.5)


def test_hemoglobin_concentration_is_33_to_34_g_per_dl_and_varies_little(cohort):
    assert 33 < cohort["concentration"].mean() < 34
    assert cohort["concentration"].std() < 1.2  # between patients
    assert cohort["concentration_sd"].mean() == pytest.approx(2.5, abs=0.3)  # within; 2.2 to 3.2 is what analysers call normal


def test_volume_and_content_are_strongly_correlated_within_a_patient(cohort):
    assert np.median(cohort["correlation"]) > 0.8
    assert cohort["correlation"].min() > 0.5


def test_every_phenotype_is_there_with_its_share(cohort):
    shares = np.bincount(cohort["phenotype"], minlength=len(PHENOTYPES)) / NUM_PATIENTS
    # 4.5 SDs of a share of 0.56, the largest, and so more for the others
    np.testing.assert_allclose(shares, [kind.share for kind in simulated._PHENOTYPES], rtol=0, atol=0.017)
    assert sum(kind.share for kind in simulated._PHENOTYPES) == pytest.approx(1)


def test_phenotypes_look_like_their_names(cohort):
    def of(name, what):
        return cohort[what][cohort["phenotype"] == PHENOTYPES.index(name)].mean()

    assert of("microcytic", "mean_volume") < 82
    assert of("macrocytic", "mean_volume") > 98
    assert of("iron_deficient", "concentration") < 32
    assert of("iron_deficient", "rdw") > 16
    assert of("iron_deficient", "oracle") < 38 < 42 < of("polycythemic", "oracle")
    large_and_pale = cohort["joint"][:, 2]
    reticulocyte_rich = cohort["phenotype"] == PHENOTYPES.index("reticulocyte_rich")
    assert large_and_pale[reticulocyte_rich].mean() > 1.5 * large_and_pale[cohort["phenotype"] == 0].mean()


def test_transfused_blood_has_two_populations():
    with_donor = [kind.name for kind in simulated._PHENOTYPES if kind.donor[1]]
    assert with_donor == ["transfused"]
    patients = simulate(num_patients=3000, num_cells=500)
    widths = patients.cells[..., 0].std(1) / patients.cells[..., 0].mean(1)
    transfused = patients.phenotype == PHENOTYPES.index("transfused")
    # own cells far from the donor's make the widest distributions, which one population with this width cannot reach
    assert widths[transfused].max() > 0.17
    assert widths[patients.phenotype == 0].max() < 0.165


def test_hematocrit_is_40_percent_and_a_constant_scores_as_published(hematocrits):
    target = hematocrits.target.astype(np.float64)
    assert target.mean() == pytest.approx(40, abs=0.05)  # 4 standard errors: 4 * 5.09 / sqrt(200,000)
    assert target.var() == pytest.approx(VARIANCE, abs=0.33)  # 4 standard errors: 4 * 25.88 * sqrt(2 / 200,000)
    assert target.min() > 10
    assert target.max() < 75


def test_an_oracle_leaves_only_noise_that_knows_nothing_of_the_patient(hematocrits):
    oracle = hematocrits.oracle.astype(np.float64)
    noise = hematocrits.target - oracle
    assert oracle.var() == pytest.approx(ORACLE_GAIN, abs=0.15)  # 5 standard errors: its distribution is close to normal
    assert noise.std() == pytest.approx(simulated.NOISE_SD, rel=0.0065)  # 4 standard errors: 4 / sqrt(2 * 200,000)
    assert abs(np.corrcoef(noise, oracle)[0, 1]) < 0.009  # 4 standard errors: 4 / sqrt(200,000)


def test_rdw_says_almost_nothing_about_hematocrit(cohort):
    # 4 standard errors: the correlation is 0.06 +- 1 / sqrt(18,000), and the gain its square times 8.6
    assert gain(cohort["rdw"][:, None], cohort["oracle"]) == pytest.approx(RDW_GAIN, abs=0.031)


def test_moments_tell_as_much_as_published(cohort):
    # 4 standard errors of 0.06, which come from the variance, 8.6 * sqrt(2 / 18,000) of 8.6, and from R^2 = 0.41,
    # 2 * sqrt(R^2) * (1 - R^2) / sqrt(18,000)
    assert gain(cohort["moments"], cohort["oracle"]) == pytest.approx(MOMENTS_GAIN, abs=0.25)


def test_the_joint_distribution_tells_more_than_the_marginals(cohort):
    both = np.column_stack([cohort["moments"], cohort["joint"]])
    # four summaries of the joint distribution and of size add 1.7; a quarter less than that would be another data set
    assert gain(both, cohort["oracle"]) > gain(cohort["moments"], cohort["oracle"]) + 1.3


def test_anemia_is_balanced_and_hard_even_for_an_oracle(anemias):
    assert set(np.unique(anemias.target)) == {0, 1}
    # 4.5 standard errors of a share: 4.5 * 0.5 / sqrt(200,000)
    assert anemias.target.mean() == pytest.approx(0.50, abs=0.005)
    assert ((anemias.oracle > 0.5) == anemias.target).mean() == pytest.approx(ORACLE_ACCURACY, abs=0.005)


def test_anemia_is_as_probable_as_the_oracle_says(anemias):
    assert (anemias.oracle > 0).all()
    assert (anemias.oracle < 1).all()
    for group in np.array_split(np.argsort(anemias.oracle), 5):
        # 4.5 standard errors of a share among 40,000
        assert anemias.target[group].mean() == pytest.approx(anemias.oracle[group].mean(), abs=0.0113)


@pytest.mark.parametrize("cohort", COHORTS)
def test_types_and_shapes_are_as_promised(cohort):
    (patients,) = simulate_patients(cohort, 5, num_cells=7)
    assert len(patients) == 5
    assert patients.ids.dtype == np.int64
    assert patients.cells.shape == (5, 7, 2)
    assert patients.cells.dtype == np.float32
    assert patients.target.dtype == (np.float32 if cohort == "hematocrit" else np.int64)
    assert patients.oracle.dtype == np.float32
    assert patients.phenotype.dtype == np.int8
    assert {getattr(patients, name).shape for name in ("ids", "target", "oracle", "phenotype")} == {(5,)}


@pytest.mark.parametrize("cohort", COHORTS)
def test_the_same_arguments_draw_the_same_patients(cohort):
    assert_same(simulate(cohort, num_cells=20, seed=4), simulate(cohort, num_cells=20, seed=4))


@pytest.mark.parametrize("num_patients", [1, 63, 64, 65, 200])
def test_fewer_patients_are_the_first_of_more(num_patients):
    more = simulate(num_patients=300, num_cells=10)
    assert_same(simulate(num_patients=num_patients, num_cells=10), more[:num_patients])


@pytest.mark.parametrize("num_cells", [0, 1, 100, 1000, 1001])
def test_fewer_cells_are_the_first_of_more_and_leave_the_patient_alone(num_cells):
    more, fewer = simulate(num_patients=3, num_cells=2100), simulate(num_patients=3, num_cells=num_cells)
    np.testing.assert_array_equal(fewer.cells, more.cells[:, :num_cells])
    for name in ("ids", "target", "oracle", "phenotype"):
        np.testing.assert_array_equal(getattr(fewer, name), getattr(more, name))


@pytest.mark.parametrize("block", [1, 50, 64, 100, 1000])
def test_the_size_of_blocks_changes_no_patient(block):
    sizes = [len(part) for part in simulate_patients("hematocrit", 150, num_cells=3, block=block)]
    assert sum(sizes) == 150
    assert set(sizes[:-1]) <= {block}
    assert_same(simulate(num_patients=150, num_cells=3, block=block), simulate(num_patients=150, num_cells=3))


def test_splits_cohorts_and_seeds_share_no_patient():
    drawn = {
        (cohort, split, seed): simulate(cohort, 100, num_cells=4, split=split, seed=seed)
        for cohort in COHORTS
        for split in ("train", "test")
        for seed in (0, 1)
    }
    # 800 patients of 4 cells, no two with a cell in common; equal float32 volumes and contents by chance are next to impossible
    first_cells = np.concatenate([patients.cells[:, 0] for patients in drawn.values()])
    assert len(np.unique(first_cells, axis=0)) == 800
    ids = np.concatenate([patients.ids for (_, _, seed), patients in drawn.items() if seed == 0])
    assert len(np.unique(ids)) == 400


def test_nothing_may_be_asked_for():
    assert list(simulate_patients("hematocrit", 0)) == []
    assert simulate(num_patients=2, num_cells=0).cells.shape == (2, 0, 2)


def test_a_whole_measurement_of_55_000_cells_can_be_drawn():
    volume = simulate(num_patients=1, num_cells=55_000).cells[0, :, 0]
    assert volume.shape == (55_000,)
    # halves of one patient have one mean: 4.5 standard errors of their difference
    halves = volume.reshape(2, -1)
    assert abs(np.diff(halves.mean(1, dtype=np.float64))[0]) < 4.5 * volume.std() * np.sqrt(2 / 27_500)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cohort": "iron"}, "cohort must be one of hematocrit, anemia; got 'iron'"),
        ({"split": "valid"}, "split must be one of train, test; got 'valid'"),
        ({"num_patients": -1}, "num_patients must be 0 or more; got -1"),
        ({"num_cells": -5}, "num_cells must be 0 or more; got -5"),
        ({"seed": -2}, "seed must be 0 or more; got -2"),
        ({"block": 0}, "block must be 1 or more; got 0"),
    ],
    ids=["cohort", "split", "num_patients", "num_cells", "seed", "block"],
)
def test_bad_arguments_are_refused_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate_patients(**{"cohort": "hematocrit", "num_patients": 1, **arguments})
