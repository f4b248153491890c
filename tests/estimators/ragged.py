"""Small ragged sets with something to learn, and estimators that learn it in a moment."""

import numpy as np

import orderless as ol

SMALL = {"width": 8, "depth": 2, "ensemble_size": 1, "learning_rate": 0.05, "epochs": 3, "batch_elements": 80, "random_state": 0}


def draw(num_sets=30, num_features=3, seed=0, smallest=0, largest=12):
    """Sets, classes by their centre, and the centre."""
    rng = np.random.default_rng(seed)
    y = np.arange(num_sets) % 2
    centre = 2.0 * y + rng.normal(scale=0.2, size=num_sets)
    sizes = rng.integers(smallest, largest, size=num_sets)
    return [rng.normal(size=(n, num_features)) + c for n, c in zip(sizes, centre, strict=True)], y, centre


def classifier(**options):
    return ol.SetClassifier(**{**SMALL, **options})


def regressor(**options):
    return ol.SetRegressor(**{**SMALL, **options})
