"""`create_model`: every network by name, with options from closed lists and one table of what fits what."""

import fnmatch
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from torch import nn

from orderless.models.base import ModelConfig, Output, SetModel
from orderless.models.deep_sets import build_deep_sets
from orderless.models.pointcloud import build_deep_sets_pointcloud, build_set_transformer_pointcloud
from orderless.models.pointnet import WIDTH as POINTNET_WIDTH
from orderless.models.pointnet import WIDTH_UNIT as POINTNET_WIDTH_UNIT
from orderless.models.pointnet import build_pointnet_plus_plus
from orderless.models.set_transformer import build_set_transformer, build_set_transformer_plus_plus
from orderless.models.simpleview import WIDTH as SIMPLEVIEW_WIDTH
from orderless.models.simpleview import WIDTH_UNIT as SIMPLEVIEW_WIDTH_UNIT
from orderless.models.simpleview import build_simpleview
from orderless.nn import NormName, Order, PoolName, ResidualName
from orderless.words import did_you_mean

Family = Literal["deep_sets", "set_transformer", "point_cloud"]


@dataclass(frozen=True)
class ModelSpec:
    """What a model is, and what it may be: for each option the values that fit it, the default first."""

    title: str  # for people
    family: Family
    build: Callable[[ModelConfig, nn.Module | None], SetModel]
    depth: int
    width: int
    norm: tuple[NormName, ...]
    residual: tuple[ResidualName, ...]
    pool: tuple[PoolName, ...]
    order: tuple[Order, ...]
    output: tuple[Output, ...]
    min_depth: int = 1
    fixed_depth: bool = False
    attends: bool = False  # whether the encoder has heads and inducing points
    in_features: int | None = None  # where an element has to be a point in space
    width_unit: int = 1  # what the width must be a multiple of

    @property
    def measures_distances(self) -> bool:
        """Whether elements are points in space: coordinates must keep their proportions, and a set cannot come in chunks."""
        return self.in_features is not None


_ANY_NORM: tuple[NormName, ...] = ("none", "layer", "feature", "set", "batch", "instance")
_SET_NORM_FIRST: tuple[NormName, ...] = ("set", "none", "layer", "feature", "batch", "instance")

MODELS: dict[str, ModelSpec] = {
    "deep_sets": ModelSpec(
        "Deep Sets",
        "deep_sets",
        build_deep_sets,
        depth=3,
        width=128,
        norm=_ANY_NORM,
        residual=("none",),
        pool=("sum", "mean", "max", "attention"),
        order=("released", "paper"),
        output=("set", "element"),
    ),
    "deep_sets++": ModelSpec(
        "Deep Sets++",
        "deep_sets",
        build_deep_sets,
        depth=50,
        width=128,
        norm=_SET_NORM_FIRST,
        residual=("clean", "non_clean", "freq_add", "mean", "max", "sum"),
        pool=("sum", "mean", "max", "attention"),
        order=("released", "paper"),
        output=("set", "element"),
        min_depth=2,
    ),
    "set_transformer": ModelSpec(
        "Set Transformer",
        "set_transformer",
        build_set_transformer,
        depth=2,
        width=128,
        norm=_ANY_NORM,
        residual=("non_clean",),
        pool=("attention", "sum", "mean", "max"),
        order=("released", "paper"),
        output=("set", "element"),
        attends=True,
    ),
    "set_transformer++": ModelSpec(
        "Set Transformer++",
        "set_transformer",
        build_set_transformer_plus_plus,
        depth=16,
        width=128,
        norm=_SET_NORM_FIRST,
        residual=("clean", "mean", "max", "sum"),
        pool=("attention", "sum", "mean", "max"),
        order=("released", "paper"),
        output=("set", "element"),
        attends=True,
    ),
    "deep_sets_pointcloud": ModelSpec(
        "Deep Sets for point clouds",
        "point_cloud",
        build_deep_sets_pointcloud,
        depth=3,
        width=256,
        norm=("none",),
        residual=("none",),
        pool=("max",),
        order=("released", "paper"),
        output=("set",),
        fixed_depth=True,
    ),
    "set_transformer_pointcloud": ModelSpec(
        "Set Transformer for point clouds",
        "point_cloud",
        build_set_transformer_pointcloud,
        depth=2,
        width=128,
        norm=("none",),
        residual=("non_clean",),
        pool=("attention",),
        order=("released", "paper"),
        output=("set",),
        fixed_depth=True,
        attends=True,
    ),
    "pointnet++": ModelSpec(
        "PointNet++",
        "point_cloud",
        build_pointnet_plus_plus,
        depth=3,
        width=POINTNET_WIDTH,
        norm=("feature",),
        residual=("none",),
        pool=("max",),
        order=("released",),
        output=("set",),
        fixed_depth=True,
        in_features=3,
        width_unit=POINTNET_WIDTH_UNIT,
    ),
    "simpleview": ModelSpec(
        "SimpleView",
        "point_cloud",
        build_simpleview,
        depth=18,
        width=SIMPLEVIEW_WIDTH,
        norm=("feature",),
        residual=("non_clean",),
        pool=("mean",),
        order=("released",),
        output=("set",),
        fixed_depth=True,
        in_features=3,
        width_unit=SIMPLEVIEW_WIDTH_UNIT,
    ),
}

CHOICES: dict[str, tuple[str, ...]] = {
    "norm": get_args(NormName),
    "residual": get_args(ResidualName),
    "pool": get_args(PoolName),
    "order": get_args(Order),
    "output": get_args(Output),
}
NO_EFFECT = (
    "Left alone where they would do nothing: pool with output=element, eps with norm=none, num_heads without attention,",
    "num_inducing outside the set_transformer family.",
)
DEFAULT_NUM_HEADS, DEFAULT_NUM_INDUCING, DEFAULT_EPS = 4, 32, 1e-5
MOST_LAYERS = 10_000  # a slip adds a digit or twenty: building so many layers would never end
MOST_FEATURES = 2**24  # likewise: torch cannot even say how much memory the weights would need


def list_models(pattern: str = "*") -> list[str]:
    """Names that `create_model` takes, those that match `pattern` (`*` and `?` as in file names)."""
    return [name for name in MODELS if fnmatch.fnmatchcase(name, pattern)]


def create_model(
    name: str,
    in_features: int,
    out_features: int,
    *,
    depth: int | None = None,
    width: int | None = None,
    norm: NormName | None = None,
    residual: ResidualName | None = None,
    pool: PoolName | None = None,
    order: Order | None = None,
    output: Output = "set",
    num_heads: int = DEFAULT_NUM_HEADS,
    num_inducing: int = DEFAULT_NUM_INDUCING,
    eps: float = DEFAULT_EPS,
    featurizer: nn.Module | None = None,
) -> SetModel:
    """Builds a network on sets. Options left at None take the model's default; `legal_table()` shows what fits what.

    Args:
        name: One of `list_models()`.
        in_features: Features of an element (what the featurizer gives, where there is one).
        out_features: Numbers predicted per set, or per element.
        depth: The paper's "No. Layers". Deep Sets has `2 * (depth // 2) + 1` linear and ReLU layers and one linear;
            Deep Sets++ `depth // 2` blocks of two layers; FreqAdd `2 * (depth // 2) + 1` blocks of one layer; the Set
            Transformers `depth` induced attention blocks.
        width: Features of an element inside the network. Of `pointnet++` and `simpleview`: what a centroid or a view has in the
            end; all layers before grow and shrink with it.
        norm: `none`, `layer`, `feature`, `set`, `batch` or `instance`.
        residual: `none`, `clean`, `non_clean`, `freq_add`, or the aggregated `mean`, `max`, `sum`.
        pool: `sum`, `mean`, `max` or `attention`.
        order: `released` arranges the ++ blocks as the authors' code does (the published numbers come from it), `paper` as
            the equations do. Where code and paper agree (`deep_sets`, `set_transformer`) both give the same network.
        output: `set` for one vector per set (invariant), `element` for one per element (equivariant).
        num_heads: Attention heads.
        num_inducing: Inducing points of an induced attention block.
        eps: Added to variances inside norms.
        featurizer: A module applied to the elements first: (T, *element) -> (T, in_features).
    """
    if name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}; got {name!r}.{did_you_mean(name, MODELS)}")
    spec = MODELS[name]
    config = ModelConfig(
        name=name,
        in_features=_plain(in_features),
        out_features=_plain(out_features),
        depth=spec.depth if depth is None else _plain(depth),
        width=spec.width if width is None else _plain(width),
        norm=spec.norm[0] if norm is None else norm,
        residual=spec.residual[0] if residual is None else residual,
        pool=spec.pool[0] if pool is None else pool,
        order=spec.order[0] if order is None else order,
        output=output,
        num_heads=_plain(num_heads),
        num_inducing=_plain(num_inducing),
        eps=_plain(eps),
    )
    check_config(config)
    check_featurizer(featurizer, config)
    return spec.build(config, featurizer)


def legal_table() -> str:
    """The published table: for each model the values that each option may have, the default first."""
    rows = [["model", *CHOICES]]
    rows += [[name, *(" ".join(getattr(spec, option)) for option in CHOICES)] for name, spec in MODELS.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, *NO_EFFECT])


def check_config(config: ModelConfig) -> None:
    """Raises ValueError, with the table, where a configuration does not fit its model."""
    spec = MODELS[config.name]
    for option, choices in CHOICES.items():
        value, legal = getattr(config, option), getattr(spec, option)
        if value not in choices:
            raise ValueError(f"{option} must be one of {', '.join(choices)}; got {value!r}.{did_you_mean(value, choices)}")
        if value not in legal:
            raise ValueError(f"{option}={value!r} does not fit {config.name}, which takes {', '.join(legal)}.\n{legal_table()}")
    for option in ("in_features", "out_features", "depth", "width", "num_heads", "num_inducing"):
        value = getattr(config, option)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{option} must be a whole number of at least 1; got {value!r}.")
        if value > (most := MOST_LAYERS if option == "depth" else MOST_FEATURES):
            raise ValueError(f"{option} must be at most {most:,}; got {value}.")
    if not isinstance(config.eps, (int, float)) or isinstance(config.eps, bool) or not 0 < config.eps < math.inf:
        raise ValueError(f"eps must be a number above 0; got {config.eps!r}.")
    if config.depth < spec.min_depth:
        raise ValueError(f"depth must be at least {spec.min_depth} for {config.name}; got {config.depth}.")
    if spec.fixed_depth and config.depth != spec.depth:
        raise ValueError(f"depth is {spec.depth} in {config.name}, as published; got {config.depth}.")
    if spec.in_features is not None and config.in_features != spec.in_features:
        raise ValueError(
            f"{config.name} is for points in space: in_features must be {spec.in_features}, the coordinates of a point; "
            f"got {config.in_features}."
        )
    if config.width % spec.width_unit:
        raise ValueError(f"width must be a multiple of {spec.width_unit} for {config.name}; got {config.width}.")
    _check_used(config, spec)
    if _has_heads(config):
        _check_heads(config)


def released_num_heads(width: int, num_heads: int) -> int:
    """The heads that the released Set Transformer++ uses when asked for `num_heads`: it rounds a head to a power of two."""
    if not 1 <= num_heads <= width:
        raise ValueError(f"num_heads must be between 1 and the width, {width}; got {num_heads}.")
    head = _released_head(width, num_heads)
    if width % head:
        raise ValueError(
            f"the released code cannot run width {width} with {num_heads} heads: it rounds a head's width to {head}, "
            f"which does not divide {width}."
        )
    return width // head


def _released_head(width: int, num_heads: int) -> int:
    head: int = 2 ** round(math.log2(max(width // num_heads, 1)))
    return head


def _plain(number: Any) -> Any:
    """numpy's numbers as Python's, which JSON can write; anything else as it is, for `check_config` to judge."""
    return number.item() if isinstance(number, np.integer | np.floating) else number


def _has_heads(config: ModelConfig) -> bool:
    return MODELS[config.name].attends or (config.pool == "attention" and config.output == "set")


def _check_heads(config: ModelConfig) -> None:
    width, heads = config.width, config.num_heads
    if width % heads:
        raise ValueError(f"num_heads must divide width: {width} features cannot be split into {heads} heads.")
    if config.name != "set_transformer++" or config.order != "released":
        return
    head = width // heads
    if head & (head - 1):
        rounded = _released_head(width, heads)
        instead = f"silently uses {width // rounded} heads" if width % rounded == 0 else "fails"
        raise ValueError(
            f"width {width} with {heads} heads makes heads of {head} features, which order='released' cannot honour: the "
            f"released code rounds a head to a power of two ({rounded}) and {instead}. Choose a width that is num_heads "
            f"times a power of two, or order='paper', which keeps {heads} heads."
        )


def _check_used(config: ModelConfig, spec: ModelSpec) -> None:
    """Raises where an option would change nothing: nobody should believe that it did something."""
    idle: dict[str, tuple[bool, Any, str]] = {
        "num_heads": (not _has_heads(config), DEFAULT_NUM_HEADS, f"{config.name} without attention pooling"),
        "num_inducing": (not spec.attends, DEFAULT_NUM_INDUCING, config.name),
        "eps": (config.norm == "none", DEFAULT_EPS, "norm='none'"),
        "pool": (config.output == "element", spec.pool[0], "output='element'"),
    }
    for option, (unused, default, cause) in idle.items():
        if unused and getattr(config, option) != default:
            raise ValueError(f"{option}={getattr(config, option)!r} has no effect with {cause}. Leave it out.\n{legal_table()}")


def check_featurizer(featurizer: nn.Module | None, config: ModelConfig) -> None:
    """Raises where a featurizer is not a module, or gives another number of features than the network takes."""
    if featurizer is None:
        return
    if not isinstance(featurizer, nn.Module):
        raise TypeError(f"featurizer must be an nn.Module, got {featurizer!r}.")
    gives = getattr(featurizer, "out_features", None)
    if isinstance(gives, int) and gives != config.in_features:
        raise ValueError(f"the featurizer gives {gives} features, but in_features={config.in_features}. They must agree.")
