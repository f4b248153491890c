"""What `bundle.json` says of an estimator, as JSON and back: options, schema, classes, scaling.

Reading trusts nothing: every entry is of the kind and length that it should be, or it is refused before it is used.

Letters: D features, K targets.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.estimators.covariates import CovariateScaler
from orderless.estimators.scaling import ElementScaler
from orderless.estimators.schema import BundleSchema
from orderless.io.reading import shown

Array = NDArray[Any]
Json = dict[str, Any]

_OF_THIS_MACHINE = {"device": "auto", "work_dir": None}  # options that mean nothing elsewhere, and what stands for them
_ADDED = {"noise": 0}  # options that older bundles lack, and how their networks were trained
_CLASS_DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def plain(value: Any) -> Any:
    """Numbers and arrays of numpy as Python's, which JSON can write; what is no number, NaN or infinite, as null.

    Raises:
        TypeError: If there is something that JSON has no word for.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a bundle holds numbers, texts, lists and dictionaries, not {type(value).__name__}: {shown(str(value))}.")


# --------------------------------------------------------------------------------------------------------- options


def parameters_to_json(parameters: Mapping[str, Any]) -> Json:
    """The options of an estimator. What tells of the machine is left behind, and so is a generator of random numbers."""
    kept: Json = {}
    for name, value in parameters.items():
        if name in _OF_THIS_MACHINE and value != "cpu":
            kept[name] = _OF_THIS_MACHINE[name]
        elif name == "random_state" and not isinstance(value, int | np.integer):
            kept[name] = None
        elif isinstance(value, Mapping):  # weights by class, where JSON would make texts of the classes
            kept[name] = {"pairs": [[plain(key), plain(item)] for key, item in value.items()]}
        else:
            kept[name] = plain(value)
    return kept


def parameters_from_json(said: Any, kind: Callable[..., Any]) -> Json:
    """The options, if they are those of this kind of estimator."""
    known = inspect.signature(kind).parameters
    said = {**_ADDED, **said} if isinstance(said, dict) else said
    _expect(isinstance(said, dict) and said.keys() == set(known), f"the options of {kind.__name__}", said)
    found: Json = {}
    for name, value in said.items():
        if isinstance(value, dict):
            pairs: Any = value.get("pairs")
            _expect(value.keys() == {"pairs"} and isinstance(pairs, list), f"pairs in the option {name}", value)
            _expect(all(isinstance(p, list) and len(p) == 2 and _is_scalar(p[0]) for p in pairs), f"pairs in {name}", pairs)
            found[name] = dict(pairs)
        else:
            _expect(_is_scalar(value), f"a number or a text in the option {name}", value)
            found[name] = value
    return found


# ---------------------------------------------------------------------------------------------------------- schema


def schema_to_json(schema: BundleSchema) -> Json:
    """A schema; lists for tuples."""
    said: Json = plain(asdict(schema))
    return said


def schema_from_json(said: Any) -> BundleSchema:
    """The schema, if it is one."""
    _expect(isinstance(said, dict) and said.keys() == {f.name for f in fields(BundleSchema)}, "a schema", said)
    features, covariates = said["features"], said["covariates"]
    _expect(_is_count(said["num_features"], 1) and _is_count(said["num_covariates"], 0), "numbers of features", said)
    for texts in (features, covariates, said["units"], said["targets"]):
        _expect(texts is None or (isinstance(texts, list) and all(isinstance(t, str) for t in texts)), "a list of texts", texts)
    _expect(isinstance(said["target_unit"], str) and isinstance(said["origin"], dict), "a unit and an origin", said)
    _expect(
        isinstance(said["units"], list) and len(said["units"]) == said["num_features"], "a unit for each feature", said["units"]
    )
    return BundleSchema(
        num_features=said["num_features"],
        features=None if features is None else tuple(features),
        units=tuple(said["units"]),
        num_covariates=said["num_covariates"],
        covariates=None if covariates is None else tuple(covariates),
        targets=tuple(said["targets"] or ()),
        target_unit=said["target_unit"],
        origin=said["origin"],
    )


# --------------------------------------------------------------------------------------------------------- classes


def classes_to_json(classes: Array) -> Json:
    """Classes with their type, so that they come back as they were."""
    if classes.dtype.kind == "U":
        return {"dtype": "str", "values": classes.tolist()}
    if classes.dtype == object:
        values = [value.item() if isinstance(value, np.generic) else value for value in classes.tolist()]
        if not all(_is_scalar(value) for value in values):
            raise TypeError("classes must be texts, numbers or truth values to be kept in a bundle.")
        return {"dtype": "object", "values": values}
    if classes.dtype.name not in _CLASS_DTYPES:
        raise TypeError(
            f"classes of dtype {classes.dtype} cannot be kept in a bundle: they must be texts, numbers or truth values."
        )
    return {"dtype": classes.dtype.name, "values": classes.tolist()}


def classes_from_json(said: Any) -> Array:
    """The classes, of the type that they had."""
    _expect(isinstance(said, dict) and said.keys() == {"dtype", "values"}, "classes", said)
    dtype, values = said["dtype"], said["values"]
    _expect(isinstance(values, list) and len(values) >= 2 and all(_is_scalar(v) for v in values), "two classes or more", values)
    _expect(dtype in ("str", "object", *_CLASS_DTYPES), "a type of classes", dtype)
    kinds = {"str": str, "bool": bool, "object": (str, bool, int, float)}.get(dtype, float if "float" in dtype else int)
    _expect(all(isinstance(v, kinds) and (dtype in ("bool", "object") or type(v) is not bool) for v in values), dtype, values)  # type: ignore[arg-type]
    classes = np.array(values, dtype=object if dtype == "object" else dtype)
    _expect(len(set(values)) == len(values), "classes that differ", values)
    return classes


# --------------------------------------------------------------------------------------------------------- scaling


def elements_from_json(said: Any, num_features: int) -> ElementScaler:
    """The scaler of elements."""
    _expect(isinstance(said, dict) and said.keys() == {"mean", "scale", "bent", "clip"}, "the scaling of elements", said)
    _expect_numbers(said["mean"], num_features, "means")
    _expect_numbers(said["scale"], num_features, "spreads", positive=True)
    bent = said["bent"]
    _expect(isinstance(bent, list) and len(bent) == num_features, f"{num_features} truth values", bent)
    _expect(all(type(value) is bool for value in bent), "truth values", bent)
    _expect(said["clip"] is None or (_is_number(said["clip"]) and said["clip"] > 0), "a bound above 0", said["clip"])
    return ElementScaler.from_description(said)


def covariates_from_json(said: Any, schema: BundleSchema) -> CovariateScaler | None:
    """The scaler of covariates, or None where there are none."""
    if schema.num_covariates == 0:
        _expect(said is None, "no covariates", said)
        return None
    _expect(isinstance(said, list) and len(said) == schema.num_covariates, f"{schema.num_covariates} covariates", said)
    for column in said:
        _expect(isinstance(column, dict) and column.keys() == {"name", "mean", "scale", "categories"}, "a covariate", column)
        _expect(isinstance(column["name"], str), "the name of a covariate", column["name"])
        _expect_numbers([column["mean"]], 1, "a mean")
        _expect_numbers([column["scale"]], 1, "a spread", positive=True)
        words = column["categories"]
        _expect(words is None or (isinstance(words, list) and all(isinstance(w, str) for w in words)), "a list of words", words)
    return CovariateScaler.from_description(said)


def target_from_json(said: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """(K,) means, (K,) spreads, and whether predictions are (N,) instead of (N, K)."""
    _expect(isinstance(said, dict) and said.keys() == {"mean", "scale", "flat"}, "the scaling of targets", said)
    _expect(isinstance(said["mean"], list) and said["mean"] != [] and type(said["flat"]) is bool, "means of targets", said)
    count = len(said["mean"])
    _expect_numbers(said["mean"], count, "means")
    _expect_numbers(said["scale"], count, "spreads")
    _expect(min(said["scale"]) >= 0, "spreads that are not negative", said["scale"])  # 0 of a constant
    _expect(not said["flat"] or count == 1, "one target", said["flat"])
    return np.asarray(said["mean"], float), np.asarray(said["scale"], float), said["flat"]


def _expect_numbers(values: Any, count: int, what: str, *, positive: bool = False) -> None:
    _expect(isinstance(values, list) and len(values) == count, f"{count} {what}", values)
    _expect(all(_is_number(v) and (v > 0 or not positive) for v in values), f"{what} that are finite", values)


def _expect(right: bool, what: str, found: Any) -> None:
    if not right:
        raise ValueError(f"{what} expected, not {shown(str(found))}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _is_count(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 2**31


def _is_scalar(value: Any) -> bool:
    return value is None or type(value) in (str, bool, int, float)


def listed(names: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Names as a tuple; a single one may come as text."""
    return None if names is None else (names,) if isinstance(names, str) else tuple(map(str, names))
