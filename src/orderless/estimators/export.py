"""A fitted estimator for machines without orderless: `export_onnx` and `export_program`, checked before the file is kept.

Letters: N sets, T elements in all sets, D features, C covariates.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from orderless.estimators import bundle_entries as entries
from orderless.estimators.bundle import Estimator, load_bundle
from orderless.estimators.classifier import SetClassifier
from orderless.estimators.deployed import Deployed, WithoutCovariates
from orderless.estimators.onnx_graph import Graph, add_networks, average, quiet, scale_covariates, scale_elements
from orderless.estimators.regressor import SetRegressor
from orderless.estimators.scaling import NEVER_CHANGES
from orderless.files import write_bytes
from orderless.io.extras import require
from orderless.version import __version__

Run = Callable[[tuple[Tensor, ...]], NDArray[np.float64]]

# sets to compare on: none, one and many elements; one set, and five of sizes around those of the tiles of attention
_SIZES = ([5], [1], [0], [3, 0, 1, 40, 33], [70, 2])
# times the rounding of PyTorch's own float32: another order of additions, but the same digits
_SLACK, _FLOOR = 20.0, 1e-5


def export_onnx(estimator: Estimator | str | Path, path: str | Path) -> None:
    """Writes an ONNX file that takes raw elements of any number of sets of any sizes, and gives what the estimator predicts.

    Scaling and the average over the ensemble are part of the graph. Inputs are `elements` (T, D) float32, all sets end to end;
    `offsets` (N + 1,) int64, set n being `elements[offsets[n]:offsets[n + 1]]`; and, for an estimator with covariates,
    `covariates` (N, C) float32, in which a word is the place that it has in the file's metadata, or -1 if it is not there. The
    output is `probabilities` (N, classes), or `prediction` (N, targets), float64. There must be one set at least.

    Before the file is kept it runs in onnxruntime on sets of several sizes, and must agree with PyTorch.

    Args:
        estimator: A fitted `SetClassifier` or `SetRegressor`, or the folder of a bundle.
        path: The file to write, by custom ending in `.onnx`.
    """
    require("onnxscript", "export")
    runtime = require("onnxruntime", "export")
    estimator, path = _fitted(estimator), _writable(path)
    output = "probabilities" if isinstance(estimator, SetClassifier) else "prediction"
    content = _onnx(estimator, output).SerializeToString()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(inputs: tuple[Tensor, ...]) -> NDArray[np.float64]:
        named = {name: value.numpy() for name, value in zip(("elements", "offsets", "covariates"), inputs, strict=False)}
        return session.run([output], named)[0]

    _check_agreement(estimator, run, "onnxruntime")
    write_bytes(path, content)


def export_program(estimator: Estimator | str | Path, path: str | Path) -> None:
    """Writes a program of `torch.export` (`.pt2`) with the inputs and the output of `export_onnx`, for PyTorch without orderless.

    It is read again and compared before the file is kept.

    Args:
        estimator: A fitted `SetClassifier` or `SetRegressor`, or the folder of a bundle.
        path: The file to write, by custom ending in `.pt2`.
    """
    estimator, path = _fitted(estimator), _writable(path)
    program = _trace(estimator)
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(program, buffer)
        again = torch.export.load(io.BytesIO(buffer.getvalue())).module()

    def run(inputs: tuple[Tensor, ...]) -> NDArray[np.float64]:
        return again(*inputs).numpy()

    _check_agreement(estimator, run, "torch.export")
    write_bytes(path, buffer.getvalue())


def _fitted(estimator: Estimator | str | Path) -> Estimator:
    if isinstance(estimator, str | Path):
        return load_bundle(estimator)
    if not isinstance(estimator, SetClassifier | SetRegressor):
        raise TypeError(
            f"a fitted SetClassifier or SetRegressor, or the folder of a bundle, is exported; got {type(estimator).__name__}."
        )
    check_is_fitted(estimator, "models_")
    return estimator


def _writable(path: str | Path) -> Path:
    """The path, looked at before minutes are spent."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; an export is one file in it, such as {path / 'model.onnx'}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist. Create it first.")
    return path


def _onnx(estimator: Estimator, output: str) -> Any:
    graph, scaler, beside = Graph(), estimator.scaler_, estimator.covariate_scaler_
    scale_elements(graph, scaler)
    inputs: dict[str, tuple[str, list[Any]]] = {
        "elements": ("float32", ["num_elements", estimator.n_features_in_]),
        "offsets": ("int64", ["num_sets_plus_one"]),
    }
    if beside is not None:
        scale_covariates(graph, beside.columns)
        inputs["covariates"] = ("float32", ["num_sets", beside.num_covariates])
    answers, member = add_networks(
        graph, estimator.models_, estimator.n_features_in_, 0 if beside is None else beside.num_outputs
    )
    target = None if isinstance(estimator, SetClassifier) else (estimator.target_mean_, estimator.target_scale_)
    average(graph, answers, output, target)
    proto = graph.finish(inputs, (output, ["num_sets", estimator._num_outputs()]), member)
    entry = proto.metadata_props.add()
    entry.key, entry.value = "orderless", json.dumps(_metadata(estimator))
    return proto


def _trace(estimator: Estimator) -> torch.export.ExportedProgram:
    """The program, with free numbers of sets and elements, one and none included."""
    from torch.fx.experimental import _config as symbolic_shapes

    deployed = copy.deepcopy(Deployed(estimator)).eval().requires_grad_(False)
    module = deployed if estimator.n_covariates_in_ else WithoutCovariates(deployed)
    example = _inputs(estimator, [3, 4])
    free = {0: torch.export.Dim.DYNAMIC}
    with torch.no_grad(), quiet(), symbolic_shapes.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        program = torch.export.export(module, example, dynamic_shapes=(free,) * len(example))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    return program


def _inputs(estimator: Estimator, sizes: list[int]) -> tuple[Tensor, ...]:
    """Sets that look like those of training, with some wild elements that are clipped: the same every time."""
    rng = np.random.default_rng(len(sizes))
    scaler, beside = estimator.scaler_, estimator.covariate_scaler_
    deviations = rng.normal(size=(sum(sizes), estimator.n_features_in_))
    deviations[::5] *= 20
    spread = np.where(scaler.scale_ == NEVER_CHANGES, 1.0, scaler.scale_)
    elements = (scaler.mean_ + spread * deviations).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    inputs = [torch.from_numpy(elements), torch.from_numpy(offsets)]
    if beside is not None:
        columns = [
            rng.normal(c.mean, 1.0 if c.scale == NEVER_CHANGES else c.scale, len(sizes))
            if c.categories is None
            else rng.integers(-1, len(c.categories), len(sizes))
            for c in beside.columns
        ]
        inputs.append(torch.from_numpy(np.stack(columns, axis=1).astype(np.float32)))
    return tuple(inputs)


def _check_agreement(estimator: Estimator, run: Run, where: str) -> None:
    """Compares with PyTorch, which itself is compared with float64: rounding may differ, answers may not.

    Raises:
        RuntimeError: If they do.
    """
    deployed = Deployed(estimator).eval()
    exact = copy.deepcopy(deployed).double()
    unit: Any = 1.0
    if not isinstance(estimator, SetClassifier):
        unit = np.where(estimator.target_scale_ == 0, 1.0, estimator.target_scale_)
    for sizes in _SIZES:
        inputs = _inputs(estimator, sizes)
        with torch.no_grad():
            ours = deployed(*inputs).numpy()
            truth = exact(*(value.double() if value.is_floating_point() else value for value in inputs)).numpy()
        theirs = run(inputs)
        allowed = _SLACK * np.abs((ours - truth) / unit).max() + _FLOOR
        if theirs.shape != ours.shape or not (np.abs((theirs - truth) / unit) <= allowed).all():
            raise RuntimeError(
                f"the exported model does not agree with PyTorch in {where}, for sets of sizes {sizes}: nothing was written. "
                "Please report it with the versions of torch, onnxscript and onnxruntime."
            )


def _metadata(estimator: Estimator) -> dict[str, Any]:
    """What the numbers mean, for whoever has only the file."""
    schema, beside = getattr(estimator, "schema_", None), estimator.covariate_scaler_
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "orderless": __version__,
        "features": None if names is None else list(map(str, names)),
        "units": None if schema is None else list(schema.units),
        "covariates": [] if beside is None else [{"name": c.name, "categories": c.categories} for c in beside.columns],
        "classes": entries.classes_to_json(estimator.classes_)["values"] if isinstance(estimator, SetClassifier) else None,
        "targets": [] if schema is None else list(schema.targets),
        "target_unit": "" if schema is None else schema.target_unit,
    }
