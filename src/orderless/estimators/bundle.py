"""A fitted estimator as a folder to deploy: `save_bundle` and `load_bundle`. Loading runs nothing that is in the folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from orderless.estimators import bundle_entries as entries
from orderless.estimators.bundle_files import (
    AGAIN,
    COVARIATES,
    DESCRIPTION,
    README,
    member_name,
    read_description,
    recover,
    whole_folder,
    write_description,
)
from orderless.estimators.classifier import SetClassifier
from orderless.estimators.covariates import CovariateModel, CovariateScaler
from orderless.estimators.regressor import SetRegressor
from orderless.estimators.schema import BundleSchema
from orderless.files import read_as_one, write_bytes, write_text
from orderless.io.errors import DataError
from orderless.io.reading import describe
from orderless.models import SetModel, load_model, save_model
from orderless.version import __version__, versions

KINDS: dict[str, type[SetClassifier] | type[SetRegressor]] = {"classifier": SetClassifier, "regressor": SetRegressor}
Estimator = SetClassifier | SetRegressor


def save_bundle(
    estimator: Estimator,
    folder: str | Path,
    *,
    features: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
    target_name: str | Sequence[str] | None = None,
    target_unit: str | None = None,
    covariate_names: Sequence[str] | None = None,
    origin: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
) -> None:
    """Writes a fitted estimator to a folder. A bundle that is there is replaced in one step, when the new one is whole.

    The folder holds weights as safetensors and everything else as JSON, with checksums; nothing in it can run code. What tells of
    the machine (`device`, `work_dir`) is left behind. For a bundle that was loaded, what is not given here stays as it was.

    Args:
        estimator: A fitted `SetClassifier` or `SetRegressor`.
        folder: Where to. The folder above must exist.
        features: Names of the features, where the estimator was fitted without any.
        units: Their units, '' where unknown.
        target_name: What is predicted; for several targets a name for each.
        target_unit: The unit of the prediction.
        covariate_names: Names of the covariates, where they came without any.
        origin: How the data were read, as JSON: `Samples.origin`.
        summary: What to keep of the training and its evaluation, as JSON.

    Raises:
        FileExistsError: If there is something at `folder` that is not a bundle.
    """
    kind = _kind_of(estimator)
    check_is_fitted(estimator, "models_")
    scaler = _named_covariates(estimator.covariate_scaler_, covariate_names)
    schema = _schema(estimator, scaler, features, units, target_name, target_unit, origin)
    targets = estimator.classes_ if isinstance(estimator, SetClassifier) else None
    description = {
        "versions": versions(),
        "kind": kind,
        "parameters": entries.parameters_to_json(estimator.get_params(deep=False)),
        "schema": entries.schema_to_json(schema),
        "classes": None if targets is None else entries.classes_to_json(targets),
        "preprocessing": {
            "elements": estimator.scaler_.describe(),
            "covariates": None if scaler is None else scaler.describe(),
            "target": _target_scaling(estimator),
        },
        "members": len(estimator.models_),
        "summary": entries.plain({**getattr(estimator, "summary_", {}), **(summary or {}), **_training(estimator)}),
    }
    with whole_folder(Path(folder)) as beside:
        for number, model in enumerate(estimator.models_):
            save_model(_without_covariates(model), beside / member_name(number))
        if scaler is not None:
            _save_joins(estimator.models_, beside / COVARIATES)
        write_text(beside / README, _readme(kind, schema, description["classes"], len(estimator.models_)))
        write_description(beside, description)


def load_bundle(folder: str | Path) -> Estimator:
    """Reads a fitted estimator that `save_bundle` wrote: it predicts the same, to the last bit on the same kind of machine.

    Every file is compared with its checksum first, and nothing in the folder is ever run. Beside what a fitted estimator has, it
    has `schema_`, what it expects of data; `summary_`, what was kept of its training; and `versions_`, which wrote it.

    Raises:
        DataError: If a file is missing or not what was written, or a newer version wrote it.
    """
    folder = Path(folder)
    recover(folder)
    return read_as_one(folder / DESCRIPTION, lambda: _load(folder))


def _load(folder: Path) -> Estimator:
    said = read_description(folder)
    with _making_sense(folder):
        estimator = _estimator(said)
    models = []
    for number in range(said["members"]):
        with _making_sense(folder / member_name(number)):
            models.append(_load_member(folder / member_name(number), estimator))
    estimator.models_ = [*models]
    if estimator.covariate_scaler_ is not None:
        with _making_sense(folder / COVARIATES):
            estimator.models_ = [*_load_joins(folder / COVARIATES, models, estimator.covariate_scaler_.num_outputs)]
    return estimator


def _estimator(said: Mapping[str, Any]) -> Estimator:
    """All but the networks."""
    if said["kind"] not in KINDS:
        raise ValueError(f"a classifier or a regressor expected, not {said['kind']!r}")
    kind = KINDS[said["kind"]]
    estimator = kind(**entries.parameters_from_json(said["parameters"], kind))
    schema, prepared = entries.schema_from_json(said["schema"]), said["preprocessing"]
    if not isinstance(prepared, dict) or prepared.keys() != {"elements", "covariates", "target"}:
        raise ValueError("scaling of elements, covariates and target expected")
    if not isinstance(said["summary"], dict) or not isinstance(said["versions"], dict):
        raise ValueError("a summary and versions expected")
    estimator.schema_, estimator.summary_, estimator.versions_ = schema, said["summary"], said["versions"]
    estimator.scaler_ = entries.elements_from_json(prepared["elements"], schema.num_features)
    estimator.covariate_scaler_ = entries.covariates_from_json(prepared["covariates"], schema)
    estimator.n_features_in_, estimator.n_covariates_in_ = schema.num_features, schema.num_covariates
    if schema.features is not None:
        estimator.feature_names_in_ = np.array(schema.features, dtype=object)
    if isinstance(estimator, SetClassifier):
        estimator.classes_ = entries.classes_from_json(said["classes"])
    else:
        target = entries.target_from_json(prepared["target"])
        estimator.target_mean_, estimator.target_scale_, estimator._flat_target = target
    history = estimator.summary_.get("history")
    estimator.history_ = history if isinstance(history, list) else []
    estimator.n_iter_ = estimator.summary_.get("n_iter")
    estimator.device_ = estimator.summary_.get("device")
    return estimator


# --------------------------------------------------------------------------------------------------------- networks


def _without_covariates(model: nn.Module) -> SetModel:
    """The network as `create_model` made it, with the same weights."""
    if not isinstance(model, CovariateModel):
        assert isinstance(model, SetModel)
        return model
    trunk = model.trunk
    return SetModel(trunk.config, trunk.encoder, trunk.pool, model.decoder, trunk.featurizer).train(trunk.training)


def _load_member(path: Path, estimator: Estimator) -> SetModel:
    model = load_model(path).eval()
    config, outputs = model.config, estimator._num_outputs()
    if (config.in_features, config.out_features, config.output) != (estimator.n_features_in_, outputs, "set") or model.featurizer:
        raise ValueError(f"it is a network of {config.in_features} -> {config.out_features} numbers per {config.output}")
    if any(weight.dtype != torch.float32 for weight in model.parameters()):
        raise ValueError("its weights are not float32")
    return model


def _save_joins(models: Sequence[nn.Module], path: Path) -> None:
    from safetensors.torch import save

    joins = {member_name(number): model.join for number, model in enumerate(models) if isinstance(model, CovariateModel)}
    write_bytes(path, save({name: join.weight.detach().cpu().clone().contiguous() for name, join in joins.items()}))


def _load_joins(path: Path, models: Sequence[SetModel], num_covariates: int) -> list[CovariateModel]:
    from safetensors.torch import load

    weights = load(path.read_bytes())
    joined = []
    for number, model in enumerate(models):
        weight = weights.pop(member_name(number))
        if weight.shape != (model.config.width, num_covariates) or weight.dtype != torch.float32:
            raise ValueError(
                f"it has {tuple(weight.shape)} of {weight.dtype}, not ({model.config.width}, {num_covariates}) of float32"
            )
        with torch.device("meta"):  # draws no random numbers, of which the user may count on the next
            whole = CovariateModel(model, num_covariates)
        whole.join.load_state_dict({"weight": weight}, assign=True)
        joined.append(whole.eval())
    if weights:
        raise ValueError(f"it has weights for {len(models) + len(weights)} networks, but there are {len(models)}")
    return joined


@contextmanager
def _making_sense(path: Path) -> Iterator[None]:
    """What has the right checksum and still makes no sense was written by somebody else: a `DataError`, whatever it upsets."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            path, expected="what save_bundle writes", found=f"something else ({describe(error, path)})", fix=AGAIN
        ) from error


# ------------------------------------------------------------------------------------------------------------- words


def _kind_of(estimator: Any) -> str:
    for kind, its in KINDS.items():
        if type(estimator) is its:
            return kind
    best = getattr(estimator, "best_estimator_", None)
    hint = " Pass its best_estimator_." if isinstance(best, SetClassifier | SetRegressor) else ""
    raise TypeError(f"save_bundle takes a SetClassifier or a SetRegressor, got {type(estimator).__name__}.{hint}")


def _schema(
    estimator: Estimator,
    scaler: CovariateScaler | None,
    features: Sequence[str] | None,
    units: Sequence[str] | None,
    target_name: str | Sequence[str] | None,
    target_unit: str | None,
    origin: Mapping[str, Any] | None,
) -> BundleSchema:
    known = getattr(estimator, "feature_names_in_", None)
    names, fitted = entries.listed(features), None if known is None else tuple(map(str, known))
    if names is not None and fitted is not None and names != fitted:
        raise ValueError(
            f"the estimator was fitted with the features {', '.join(fitted)}: leave features= out, or give the same."
        )
    before = getattr(estimator, "schema_", BundleSchema(estimator.n_features_in_))
    targets = before.targets if target_name is None else entries.listed(target_name) or ()
    outputs = 1 if isinstance(estimator, SetClassifier) else estimator._num_outputs()
    if targets and len(targets) != outputs:
        raise ValueError(f"target_name must be a name for each of {outputs} targets, got {', '.join(targets)}.")
    return BundleSchema(
        num_features=estimator.n_features_in_,
        features=names or fitted,
        units=before.units if units is None and (names or fitted) else tuple(units or ()),
        num_covariates=estimator.n_covariates_in_,
        covariates=None if scaler is None else tuple(column.name for column in scaler.columns),
        targets=targets,
        target_unit=before.target_unit if target_unit is None else target_unit,
        origin=entries.plain(before.origin if origin is None else origin),
    )


def _named_covariates(scaler: CovariateScaler | None, names: Sequence[str] | None) -> CovariateScaler | None:
    if names is None:
        return scaler
    count = 0 if scaler is None else scaler.num_covariates
    if scaler is None or len(names) != count:
        raise ValueError(
            f"covariate_names must be {count} names, one for each covariate of the estimator; got {', '.join(names)}."
        )
    return CovariateScaler([replace(column, name=str(name)) for column, name in zip(scaler.columns, names, strict=True)])


def _target_scaling(estimator: Estimator) -> dict[str, Any] | None:
    if isinstance(estimator, SetClassifier):
        return None
    mean, scale = estimator.target_mean_, estimator.target_scale_
    return {"mean": mean.tolist(), "scale": scale.tolist(), "flat": estimator._flat_target}


def _training(estimator: Estimator) -> dict[str, Any]:
    return {"n_iter": estimator.n_iter_, "device": estimator.device_, "history": estimator.history_}


def _readme(kind: str, schema: BundleSchema, classes: Mapping[str, Any] | None, members: int) -> str:
    target = ", ".join(schema.targets) or "a target without a name"
    unit = f" in {schema.target_unit}" if schema.target_unit else ""
    answers = f"one of {', '.join(map(str, classes['values'][:20]))}" if classes else f"a number{unit}"
    names = ", ".join(schema.features[:50]) if schema.features else "without names"
    lines = [
        f"This folder is a trained {kind} of sets, made with orderless {__version__}.",
        "",
        f"It predicts {target}: {answers}.",
        f"A set is a table of elements with {schema.num_features} features: {names}.",
        *(
            [f"With each set come {schema.num_covariates} covariates: {', '.join(schema.covariates)}."]
            if schema.covariates
            else []
        ),
        "",
        "    from orderless.estimators import load_bundle",
        "    model = load_bundle('this folder')",
        "    model.predict([elements of the first set, elements of the second, ...])",
        "",
        "bundle.json            everything but weights, with the SHA-256 of every file",
        f"member-*.safetensors   weights of {members} network{'s' if members > 1 else ''}, whose predictions are averaged",
        *(["covariates.safetensors weights by which covariates join"] if schema.num_covariates else []),
        "",
        "There is no code in here, and loading it runs none. A file that was changed since is refused.",
    ]
    return "\n".join(lines) + "\n"
