"""Tasks of each objective, drawn in memory: what evaluation needs of `TaskData`."""

from types import SimpleNamespace

import numpy as np
import torch

from orderless import SetBatch
from orderless.tasks.base import variant
from orderless.tasks.dataset import LabelledSets
from orderless.tasks.normal_var import NORMAL_VAR

OBJECTIVES = {"regression": "mse", "classification": "accuracy", "element_choice": "accuracy"}
LEARNERS = ["moments", "moments_boosted", "mean_embedding"]


class Dataset:
    """What evaluation needs of a `SetDataset`, in memory."""

    def __init__(self, sets, target, columns=None):
        self.all, self.target, self.columns = list(sets), torch.as_tensor(target), columns or {}
        self.sizes = np.array([len(x) for x in self.all])
        self.passes = 0

    @property
    def raw(self):
        return self

    def __len__(self):
        return len(self.all)

    def __getitem__(self, key):
        rows = np.arange(len(self))[key]
        return LabelledSets(SetBatch.from_list([self.all[i] for i in rows]), self.target[rows])

    def batches(self, batch_size):
        self.passes += 1
        return (self[start : start + batch_size] for start in range(0, len(self), batch_size))


def make_data(objective, train, test, *, num_classes=2, **changes):
    task = variant(NORMAL_VAR, objective=objective, metric=OBJECTIVES[objective], **changes)
    return SimpleNamespace(task=task, train=train, test=test, out_features=num_classes)


def draw_regression(count, seed, *, dim=2):
    """Ragged sets whose target is their spread, and some noise."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(1, 3, count)
    sets = [50 + s * rng.normal(size=(rng.integers(60, 120), dim)) for s in spread]
    return Dataset(sets, torch.tensor(spread[:, None] + 0.05 * rng.normal(size=(count, 1)), dtype=torch.float32))


def draw_classes(count, seed):
    """Ragged sets of class 0, 1 or 2, which differ in shape: normal, uniform or two clusters, all of variance 1."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=count)
    draws = [lambda n: rng.normal(size=n), lambda n: rng.uniform(-(3**0.5), 3**0.5, n), lambda n: rng.choice([-1.0, 1.0], n)]
    return Dataset([draws[k](rng.integers(80, 120))[:, None] for k in kinds], kinds)


def draw_outliers(count, seed, *, dim=3, distance=6.0):
    """Ragged sets around centres of their own, one element of each pushed away in a random direction."""
    rng = np.random.default_rng(seed)
    sets, places = [], []
    for _ in range(count):
        x = 3 * rng.normal(size=dim) + rng.normal(size=(rng.integers(5, 12), dim))
        places.append(rng.integers(len(x)))
        direction = rng.normal(size=dim)
        x[places[-1]] += distance * direction / np.linalg.norm(direction)
        sets.append(x)
    return Dataset(sets, np.array(places))


DRAW = {"regression": draw_regression, "classification": draw_classes, "element_choice": draw_outliers}
