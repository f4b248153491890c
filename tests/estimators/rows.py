"""The fixed-size view that scikit-learn's checks need: a table of n rows as n sets of one element each."""

import numpy as np

import orderless as ol


def as_sets(table):
    if hasattr(table, "toarray"):
        raise TypeError("Sparse data was passed, but dense data is required.")
    table = np.asarray(table)
    if table.ndim != 2:
        raise ValueError(f"Expected 2D array, got shape {table.shape}. Reshape your data.")
    return table[:, None, :]


class Rows:
    def fit(self, X, y, *, sample_weight=None, groups=None, covariates=None):  # noqa: N803 - as scikit-learn calls it
        return super().fit(as_sets(X), y, sample_weight=sample_weight, groups=groups, covariates=covariates)

    def score(self, X, y, *, sample_weight=None):  # noqa: N803
        return super().score(X, y, sample_weight=sample_weight)

    def _answers(self, X, covariates):  # noqa: N803
        return super()._answers(as_sets(X), covariates)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = True, False
        return tags


class RowsClassifier(Rows, ol.SetClassifier):
    pass


class RowsRegressor(Rows, ol.SetRegressor):
    pass
