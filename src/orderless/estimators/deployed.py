"""A fitted estimator as one module: raw elements in, probabilities or predictions out. What is exported is this.

Letters: N sets, T elements in all sets, D features, C covariates as given, K answers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from orderless.estimators.bundle import Estimator
from orderless.estimators.classifier import SetClassifier
from orderless.estimators.covariates import Column, CovariateModel, CovariateScaler
from orderless.estimators.defaults import CLIP
from orderless.sets import SetBatch


class Deployed(nn.Module):
    """Scales elements, asks every network of the ensemble, and joins the answers as the estimator does.

    Args:
        estimator: A fitted one. Its networks are taken as they are, not copied.

    Shapes: elements (T, D) in the units of training, offsets (N + 1,) and, where the estimator has covariates, those (N, C) ->
    (N, K) float64: probabilities in the order of `classes_`, or predictions in the unit of the target. In a column of words, the
    place of the word among those of training stands for it, and -1 for any other.
    """

    mean: Tensor
    scale: Tensor
    bent: Tensor
    target_mean: Tensor
    target_scale: Tensor

    def __init__(self, estimator: Estimator) -> None:
        super().__init__()
        scaler, beside = estimator.scaler_, estimator.covariate_scaler_
        # float32 as for elements of float32: the same numbers reach the networks
        self.register_buffer("mean", torch.as_tensor(scaler.mean_, dtype=torch.float32))
        self.register_buffer("scale", torch.as_tensor(scaler.scale_, dtype=torch.float32))
        self.register_buffer("bent", torch.as_tensor(scaler.bent_))
        self.bends, self.clip = bool(scaler.bent_.any()), scaler.clip
        self.covariates = None if beside is None else ScaledCovariates(beside)
        self.members = nn.ModuleList(estimator.models_)
        self.classifies = isinstance(estimator, SetClassifier)
        if not isinstance(estimator, SetClassifier):
            self.register_buffer("target_mean", torch.as_tensor(estimator.target_mean_, dtype=torch.float64))
            self.register_buffer("target_scale", torch.as_tensor(estimator.target_scale_, dtype=torch.float64))

    def forward(self, elements: Tensor, offsets: Tensor, covariates: Tensor | None = None) -> Tensor:
        x = (elements - self.mean) / self.scale
        if self.bends:
            x = torch.where(self.bent, x.asinh(), x)
        batch = SetBatch._trusted(x if self.clip is None else x.clamp(-self.clip, self.clip), offsets)
        beside = None
        if self.covariates is not None:
            assert covariates is not None
            beside = self.covariates(covariates)
        answers = torch.stack([_ask(member, batch, beside) for member in self.members]).double()  # (members, N, K)
        if self.classifies:
            return answers.softmax(2).mean(0)
        return answers.mean(0) * self.target_scale + self.target_mean


class WithoutCovariates(nn.Module):
    """`Deployed` with two inputs: an optional third would be a hole in an exported program."""

    def __init__(self, deployed: Deployed) -> None:
        super().__init__()
        self.deployed = deployed

    def forward(self, elements: Tensor, offsets: Tensor) -> Tensor:
        return self.deployed(elements, offsets)


class ScaledCovariates(nn.Module):
    """Covariates as networks get them: numbers standardised, a column for each word. Shapes: (N, C) -> (N, K)."""

    def __init__(self, scaler: CovariateScaler) -> None:
        super().__init__()
        self.columns: tuple[Column, ...] = scaler.columns

    def forward(self, covariates: Tensor) -> Tensor:
        wide = covariates.double()  # as the estimator does it
        parts = []
        for number, column in enumerate(self.columns):
            values = wide[:, number, None]
            if column.categories is None:
                parts.append(((values - column.mean) / column.scale).clamp(-CLIP, CLIP))
            else:
                places = torch.arange(len(column.categories), device=values.device, dtype=values.dtype)
                parts.append((values == places).to(values.dtype))
        return torch.cat(parts, 1).to(covariates.dtype)


def _ask(member: nn.Module, batch: SetBatch, covariates: Tensor | None) -> Tensor:
    if not isinstance(member, CovariateModel):
        return member(batch)
    assert covariates is not None
    return member.answer(member.trunk(batch), covariates)
