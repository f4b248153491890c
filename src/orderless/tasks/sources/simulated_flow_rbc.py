"""Simulated Flow-RBC: red blood cells of invented patients, with their hematocrit or a diagnosis of anemia.

The real Flow-RBC (Zhang, Tozzo, Higgins, Ranganath 2022, appendix "Flow-RBC") is measured blood of hospital patients. This module
draws a data set of the same shape from a written-down model, so that everything can be run without patients' data. A patient has
a phenotype and nine numbers (`_Parameters`); the numbers fix the distribution of the cells and the expected hematocrit g:

    cell = (volume, content), content = volume * concentration / 100        [fL, pg, g/dL]
    log(volume) = log-mean + spread * z,   concentration = mean + slope * z + scatter * e,   z, e ~ N(0, 1)
    hematocrit ~ Normal(g(parameters), NOISE_SD^2),   anemia ~ Bernoulli(p(g(parameters)))

where log-mean, spread, mean and slope depend on the patient and on the cell's population: mature, reticulocyte, hypochromic or
donor. The cells are independent of the target given the parameters. The physiology was written down first. Then the coefficients
of g were set so that simple predictors score what the paper says they score on the real data; `docs/flow_rbc.md` has the figures.

Letters: N patients, M cells of a patient, K terms of g, S = PATIENTS_PER_STREAM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Cohort = Literal["hematocrit", "anemia"]
Split = Literal["train", "test"]
COHORTS: Final[tuple[Cohort, ...]] = get_args(Cohort)
SPLITS: Final[tuple[Split, ...]] = get_args(Split)


@dataclass(frozen=True)
class Patients:
    """A block of simulated patients.

    Attributes:
        ids: (N,) int64. No number is used by two patients, be it in another split or cohort.
        cells: (N, M, 2) float32: volume in fL, hemoglobin content in pg. Positive and finite.
        target: (N,) hematocrit in % (float32), or anemia, 0 or 1 (int64).
        oracle: (N,) float32. What the target is expected to be, given all parameters: the best that any predictor can do.
        phenotype: (N,) int8, index into `PHENOTYPES`.
    """

    ids: NDArray[np.int64]
    cells: NDArray[np.float32]
    target: NDArray[np.float32] | NDArray[np.int64]
    oracle: NDArray[np.float32]
    phenotype: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, patients: slice) -> Patients:
        """The patients of a slice, without a copy."""
        return Patients(*(getattr(self, field.name)[patients] for field in fields(self)))


# Usual values: those of normal blood, and the origin of the terms of g.
USUAL_VOLUME: Final = (90.0, 6.0)  # fL, mean and SD between patients of the mean volume; the normal range is about 80 to 100
USUAL_WIDTH: Final = 0.132  # coefficient of variation of volume in mature cells; RDW is then about 13.6 %, normal 11.5 to 14.5
USUAL_CONCENTRATION: Final = 33.7  # g/dL; the normal range of the mean concentration is 32 to 36
USUAL_RETICULOCYTES: Final = 0.012  # of the patient's own cells; 0.5 to 2 % in health
USUAL_HYPOCHROMIC: Final = 0.008  # of the patient's own cells; less than 2.5 % in health


@dataclass(frozen=True)
class _Phenotype:
    """What patients of one kind have in common. Volumes in fL, concentrations in g/dL."""

    name: str
    share: float  # of all patients
    hematocrit: float  # calibrated: % added to the expected hematocrit
    volume: float = USUAL_VOLUME[0]  # of mature cells, mean over patients
    volume_sd: float = 3.5  # of the patients' mean volumes; with the differences between phenotypes it makes about 6
    width: float = USUAL_WIDTH  # coefficient of variation of the volume of mature cells, median over patients
    concentration: float = USUAL_CONCENTRATION  # of mature cells, mean over patients
    reticulocytes: float = USUAL_RETICULOCYTES  # median fraction of own cells
    hypochromic: float = USUAL_HYPOCHROMIC  # median fraction of own cells
    donor: tuple[float, float] = (0.0, 0.0)  # least and greatest fraction of all cells that were transfused


# The direction of each departure from normal is what textbooks of laboratory medicine describe. Its size, and the shares, are
# those of an imagined hospital. Wide distributions (high RDW) come with low hematocrit (iron deficiency, transfusion, many
# reticulocytes) and with high hematocrit: polycythemia treated by phlebotomy runs short of iron, and makes small pale cells at
# full speed. The two directions nearly cancel, so that a straight line through RDW says next to nothing, as in the paper.
_PHENOTYPES: Final = (
    _Phenotype("normal", 0.56, 0.0),
    # thalassemia trait: small cells, not all well filled
    _Phenotype("microcytic", 0.07, -1.0, volume=79.0, width=0.135, concentration=32.9, hypochromic=0.03),
    # lack of vitamin B12 or folate, alcohol, liver disease
    _Phenotype("macrocytic", 0.09, -1.0, volume=100.0, width=0.140, concentration=33.5),
    _Phenotype("iron_deficient", 0.08, -2.0, volume=84.0, volume_sd=4.0, width=0.145, concentration=32.8, hypochromic=0.18),
    # own cells of any size, and a second population from donors with normal blood
    _Phenotype("transfused", 0.07, -2.0, volume=86.0, volume_sd=8.0, width=0.138, concentration=33.0, donor=(0.15, 0.5)),
    # after bleeding or hemolysis
    _Phenotype("reticulocyte_rich", 0.06, -2.0, volume=92.0, volume_sd=4.0, width=0.138, concentration=33.3, reticulocytes=0.09),
    # treated by phlebotomy: many cells, too little iron
    _Phenotype("polycythemic", 0.07, 5.5, volume=85.0, volume_sd=4.0, width=0.145, concentration=33.2,
               reticulocytes=0.025, hypochromic=0.10),
)  # fmt: skip
PHENOTYPES: Final[tuple[str, ...]] = tuple(kind.name for kind in _PHENOTYPES)

# Variation between patients of one phenotype.
BETWEEN_PATIENTS_LIMIT: Final = 2.2  # SDs; normal variates are clipped there, so that RDW stays within 11 to 25 %
WIDTH_LOG_SD: Final = 0.05  # of the logarithm of the volume's coefficient of variation
CONCENTRATION_SD: Final = 0.8  # g/dL; the normal range is about 2 SDs wide on either side
SCATTER: Final = (2.0, 0.22)  # g/dL, median of the SD of concentration at a given volume, and SD of its logarithm
SLOPE: Final = (-0.8, 0.28)  # g/dL for 1 SD of log volume, mean and SD: cells lose water as they age, so small ones are dense
RETICULOCYTES_LOG_SD: Final = 0.55  # of the logarithm of the fraction
RETICULOCYTES_MOST: Final = 0.25  # fraction; more is hardly ever seen
HYPOCHROMIC_LOG_SD: Final = 0.50  # of the logarithm of the fraction
HYPOCHROMIC_MOST: Final = 0.40  # fraction; keeps RDW below 25 %
DONOR_VOLUME: Final = (90.0, 3.0)  # fL, mean and SD between donors

# The populations of cells within a patient, relative to the patient's mature cells.
RETICULOCYTE_VOLUME: Final = 1.22  # times as large: about 110 fL
RETICULOCYTE_CONCENTRATION: Final = -4.5  # g/dL: about 29, they still take up hemoglobin
HYPOCHROMIC_VOLUME: Final = 0.82  # times as large
HYPOCHROMIC_CONCENTRATION: Final = -6.0  # g/dL: below 28, the usual threshold for "hypochromic"
DONOR_WIDTH: Final = USUAL_WIDTH  # coefficient of variation of the volume: a healthy donor
DONOR_CONCENTRATION: Final = USUAL_CONCENTRATION  # g/dL
CONCENTRATION_RANGE: Final = (15.0, 50.0)  # g/dL; fewer than one cell in a million is clipped there

# Calibrated: the coefficients of g, in % of hematocrit. The terms that they multiply are in `_terms`.
HEMATOCRIT_BASE: Final = 41.82  # makes the mean 40
HEMATOCRIT_TERMS: Final = {
    "concentration": 1.15,  # loss of water makes blood and cells denser alike
    "slope": 1.6,  # in anemia old cells are kept longer, and grow smaller and denser (PMC4717489)
    "marrow": -1.5,  # too few reticulocytes: the marrow fails; too many: it makes up for a loss
    "size": -2.5,  # anemia comes with small cells (iron, thalassemia) and with large ones (B12, folate, liver)
    "width": 0.28,  # a marrow that is driven hard (lack of oxygen, androgens) lets out cells of all sizes
}
NOISE_SD: Final = 4.158  # % of hematocrit: what single cells do not tell, such as their number and the volume of plasma

# Calibrated: anemia is a coin with p = 1 / (1 + exp(-(ANEMIA_INTERCEPT + ANEMIA_SLOPE * risk))), risk = (mean - g) / SD of g.
HEMATOCRIT_MEAN: Final = 40.0  # of g over patients
HEMATOCRIT_SD: Final = 2.93  # of g over patients
ANEMIA_INTERCEPT: Final = 0.0  # half of the patients are anemic, as in the paper's cohort
ANEMIA_SLOPE: Final = 0.585  # the best predictor is then right for 61 % of the patients

PATIENTS_PER_STREAM: Final = 64  # patients who share streams of random numbers; changing it changes every patient
CELLS_PER_CHUNK: Final = 1000  # cells made at once: bounds the memory for temporary arrays, changes no number
IDS_PER_SPLIT: Final = 10**9


def simulate_patients(
    cohort: Cohort,
    num_patients: int,
    *,
    num_cells: int = 1000,
    seed: int = 0,
    split: Split = "train",
    block: int = 256,
) -> Iterator[Patients]:
    """Draws patients of a cohort, a block at a time.

    Patient `i` of a cohort, seed and split is the same whatever `num_patients` and `block` are. With fewer cells it has the same
    parameters, the same target and the first of its cells.

    Args:
        cohort: What the target is: "hematocrit" (a number) or "anemia" (0 or 1). Cohorts have no patient in common.
        num_patients: How many in all. The paper has 98,240 + 23,104 for hematocrit and 11,136 + 2,432 for anemia.
        num_cells: Cells for each patient, M. May be 0, for the targets alone.
        seed: At least 0. Another seed draws other patients.
        split: "train" or "test". They have no patient in common and are equally distributed.
        block: Patients in each block that is yielded; the last may have fewer. It bounds the memory, and changes no patient.

    Yields:
        `Patients` in order; nothing for no patients.

    Raises:
        ValueError: At once, if an argument is none of the allowed ones.
    """
    _check_choice("cohort", cohort, COHORTS)
    _check_choice("split", split, SPLITS)
    _check_least("num_patients", num_patients, 0)
    _check_least("num_cells", num_cells, 0)
    _check_least("seed", seed, 0)
    _check_least("block", block, 1)
    return _blocks(cohort, num_patients, num_cells, seed, split, block)


def _expected_hematocrit(parameters: _Parameters) -> NDArray[np.float64]:
    """g: the hematocrit in % that patients with these parameters have on average, (N,)."""
    offset = np.array([kind.hematocrit for kind in _PHENOTYPES])[parameters.phenotype]  # (N,)
    terms = _terms(parameters)
    return HEMATOCRIT_BASE + offset + sum(HEMATOCRIT_TERMS[name] * terms[name] for name in HEMATOCRIT_TERMS)


@dataclass(frozen=True)
class _Parameters:
    """What is drawn for each patient; (N,) each. See `_Phenotype` for the units."""

    phenotype: NDArray[np.int8]
    volume: NDArray[np.float64]
    width: NDArray[np.float64]
    concentration: NDArray[np.float64]
    scatter: NDArray[np.float64]  # SD of concentration at a given volume, g/dL
    slope: NDArray[np.float64]  # of concentration on standardised log volume, g/dL
    reticulocytes: NDArray[np.float64]
    hypochromic: NDArray[np.float64]
    donor: NDArray[np.float64]
    donor_volume: NDArray[np.float64]


def _terms(parameters: _Parameters) -> dict[str, NDArray[np.float64]]:
    """What g is made of, (N,) each.

    A linear model of the marginal distributions of volume and content sees less than half of it: "slope" is a matter of the joint
    distribution, "marrow" and "size" depart from normal on both sides, and "marrow" is about a few cells in a hundred.
    """
    p = parameters
    return {
        "concentration": (p.concentration - USUAL_CONCENTRATION) / CONCENTRATION_SD,
        "slope": (p.slope - SLOPE[0]) / SLOPE[1],
        "marrow": _departure(np.log(p.reticulocytes / USUAL_RETICULOCYTES) / RETICULOCYTES_LOG_SD),
        "size": _departure((p.volume - USUAL_VOLUME[0]) / USUAL_VOLUME[1]),
        "width": np.log(p.width / USUAL_WIDTH) / WIDTH_LOG_SD,
    }


def _departure(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 0 at the usual value to 1 far from it, on either side."""
    return z * z / (1 + z * z)


def _draw_parameters(rng: np.random.Generator, num_patients: int) -> _Parameters:
    def between(mean: float | NDArray[np.float64], sd: float | NDArray[np.float64]) -> NDArray[np.float64]:
        z = rng.standard_normal(num_patients).clip(-BETWEEN_PATIENTS_LIMIT, BETWEEN_PATIENTS_LIMIT)
        return mean + sd * z

    def of_kind(name: str) -> NDArray[np.float64]:
        return np.array([getattr(kind, name) for kind in _PHENOTYPES], dtype=np.float64)[phenotype]

    shares = np.array([kind.share for kind in _PHENOTYPES])
    phenotype = np.searchsorted(shares.cumsum()[:-1], rng.random(num_patients), side="right").astype(np.int8)
    donor = of_kind("donor")  # (N, 2)
    return _Parameters(
        phenotype=phenotype,
        volume=between(of_kind("volume"), of_kind("volume_sd")),
        width=of_kind("width") * np.exp(between(0.0, WIDTH_LOG_SD)),
        concentration=between(of_kind("concentration"), CONCENTRATION_SD),
        scatter=SCATTER[0] * np.exp(between(0.0, SCATTER[1])),
        slope=between(*SLOPE),
        reticulocytes=np.minimum(of_kind("reticulocytes") * np.exp(between(0.0, RETICULOCYTES_LOG_SD)), RETICULOCYTES_MOST),
        hypochromic=np.minimum(of_kind("hypochromic") * np.exp(between(0.0, HYPOCHROMIC_LOG_SD)), HYPOCHROMIC_MOST),
        donor=donor[:, 0] + (donor[:, 1] - donor[:, 0]) * rng.random(num_patients),
        donor_volume=between(*DONOR_VOLUME),
    )


def _draw_cells(
    p: _Parameters, num_cells: int, which: np.random.Generator, size: np.random.Generator, scatter: np.random.Generator
) -> NDArray[np.float32]:
    """Cells of S patients, (S, M, 2). Random numbers are drawn cell by cell, so fewer cells are the first of more."""
    S = len(p.phenotype)
    width = np.stack([p.width, p.width, p.width, np.full(S, DONOR_WIDTH)])  # (4, S): mature, reticulocyte, hypochromic, donor
    volume = np.stack([p.volume, p.volume * RETICULOCYTE_VOLUME, p.volume * HYPOCHROMIC_VOLUME, p.donor_volume])
    spread = np.sqrt(np.log1p(width**2))  # of log volume, for a log-normal volume with this coefficient of variation
    log_mean = np.log(volume) - spread**2 / 2
    own = p.concentration
    mean = np.stack(
        [own, own + RETICULOCYTE_CONCENTRATION, own + HYPOCHROMIC_CONCENTRATION, np.full(S, DONOR_CONCENTRATION)]
    )  # (4, S)
    slope = np.stack([p.slope, p.slope, p.slope, np.full(S, SLOPE[0])])
    at_given_volume = p.scatter.astype(np.float32)  # (S,)
    log_mean, spread, mean, slope = (a.astype(np.float32).ravel() for a in (log_mean, spread, mean, slope))  # (4 S,)
    donor_from = (1 - p.donor).astype(np.float32)  # uniform numbers from here on are donor cells
    hypochromic_from = ((1 - p.donor) * (1 - p.hypochromic)).astype(np.float32)
    reticulocyte_from = ((1 - p.donor) * (1 - p.hypochromic - p.reticulocytes)).astype(np.float32)

    cells = np.empty((S, num_cells, 2), dtype=np.float32)
    for start in range(0, num_cells, CELLS_PER_CHUNK):
        chunk = slice(start, min(start + CELLS_PER_CHUNK, num_cells))
        shape = (chunk.stop - chunk.start, S)
        u = which.random(shape, dtype=np.float32)
        kind = (u >= reticulocyte_from).astype(np.intp) + (u >= hypochromic_from) + (u >= donor_from)
        kind *= S
        kind += np.arange(S)  # index into (4 S,)
        z = size.standard_normal(shape, dtype=np.float32)
        drawn = np.exp(log_mean.take(kind) + spread.take(kind) * z)
        concentration = mean.take(kind) + slope.take(kind) * z
        concentration += at_given_volume * scatter.standard_normal(shape, dtype=np.float32)
        concentration.clip(*CONCENTRATION_RANGE, out=concentration)
        cells[:, chunk, 0] = drawn.T
        cells[:, chunk, 1] = (drawn * concentration / np.float32(100)).T
    return cells


def _simulate_stream(cohort: Cohort, num_cells: int, seed: int, split: Split, index: int) -> Patients:
    """The S patients from number `S * index` on."""
    place = COHORTS.index(cohort) * len(SPLITS) + SPLITS.index(split)
    streams = np.random.SeedSequence(seed, spawn_key=(place, index)).spawn(5)
    for_parameters, for_target, which, size, scatter = (np.random.default_rng(stream) for stream in streams)
    parameters = _draw_parameters(for_parameters, PATIENTS_PER_STREAM)
    oracle = _expected_hematocrit(parameters)
    target: NDArray[np.float32] | NDArray[np.int64]
    if cohort == "hematocrit":
        target = (oracle + NOISE_SD * for_target.standard_normal(PATIENTS_PER_STREAM)).astype(np.float32)
    else:
        risk = (HEMATOCRIT_MEAN - oracle) / HEMATOCRIT_SD
        oracle = 1 / (1 + np.exp(-(ANEMIA_INTERCEPT + ANEMIA_SLOPE * risk)))
        target = (for_target.random(PATIENTS_PER_STREAM) < oracle).astype(np.int64)
    return Patients(
        ids=place * IDS_PER_SPLIT + index * PATIENTS_PER_STREAM + np.arange(PATIENTS_PER_STREAM, dtype=np.int64),
        cells=_draw_cells(parameters, num_cells, which, size, scatter),
        target=target,
        oracle=oracle.astype(np.float32),
        phenotype=parameters.phenotype,
    )


def _blocks(cohort: Cohort, num_patients: int, num_cells: int, seed: int, split: Split, block: int) -> Iterator[Patients]:
    """Cuts the streams' patients into blocks."""
    S = PATIENTS_PER_STREAM
    held_index, held = -1, None
    for start in range(0, num_patients, block):
        stop = min(start + block, num_patients)
        parts = []
        for index in range(start // S, -(-stop // S)):
            if held is None or index != held_index:  # a stream that straddles two blocks is drawn once
                held_index, held = index, _simulate_stream(cohort, num_cells, seed, split, index)
            first = index * S
            parts.append(held[max(start - first, 0) : stop - first])
        yield Patients(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Patients)))


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")


def _check_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} must be {least} or more; got {value}.")
