"""Weights saved by the authors' released code (rajesh-lab/deep_permutation_invariant) in our models.

The released `state_dict` says nearly everything: `enc.*` are the encoder's layers, `dec.*` pooling and decoder, and the
shapes give width, depth, inputs and outputs. The tables below translate its names, one row per name.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from orderless.models.base import SetModel
from orderless.models.registry import DEFAULT_NUM_HEADS, DEFAULT_NUM_INDUCING, MODELS, create_model, released_num_heads
from orderless.nn import ConvFeaturizer, NormName, Order, PoolName, ResidualName

_AFFINE = {"weights": "weight", "biases": "bias"}  # the released set norm's own names

_ATTENTION = {"fc_q": "attend.fc_q", "fc_k": "attend.fc_k", "fc_v": "attend.fc_v", "fc_o": "fc"}
_MAB = _ATTENTION | {"norm0": "attention_norm", "norm1": "out_norm"}
_MAB_PLUS_PLUS = _ATTENTION | {"normQ": "query_norm", "normK": "key_norm", "norm0": "out_norm"}
_RESIDUAL_BLOCK = {"fc": "branch.fc1", "fc2": "branch.fc2", "norm": "branch.norm1", "norm2": "branch.norm2"}
_PLAIN_LAYER = {"fc": "fc", "norm": "norm"}
_WRAPPED = "module."  # what DataParallel and DistributedDataParallel put before every name
_FIRST_WEIGHT = {
    "deep_sets": "enc.0.fc.weight",
    "deep_sets++": "enc.0.weight",
    "set_transformer": "enc.0.mab0.fc_k.weight",
    "set_transformer++": "enc.0.weight",
}


def load_released(
    state_dict: Mapping[str, Tensor | npt.NDArray[Any]],
    name: str,
    *,
    norm: NormName | None = None,
    residual: ResidualName | None = None,
    pool: PoolName | None = None,
    order: Order | None = None,
    num_heads: int = DEFAULT_NUM_HEADS,
) -> SetModel:
    """Builds the model that the authors' released code saved, with its weights.

    Width, depth, inputs, outputs, inducing points, and whether it is the convolutional network of set anomaly detection
    come from the weights. The model is in training mode, as the authors always ran theirs. The convolutional networks were
    trained on images with height and width swapped: give them elements of shape (channels, width, height).

    Args:
        state_dict: As `torch.load` gives it, with tensors or numpy arrays. The `module.` that `DataParallel` puts before every
            name is removed.
        name: `deep_sets`, `deep_sets++`, `set_transformer` or `set_transformer++`.
        norm: In our names, as are the next three: `set_norm` is `set`. None finds it out from the weights.
        residual: `he` is `clean`, `resnet` is `non_clean`, `agg` is `mean` in Deep Sets++ and `max` in Set Transformer++.
            None takes the model's default, here and below.
        pool: `pma` is `attention`.
        order: `released` runs the weights as they were trained; `paper` arranges the same weights differently, for comparison.
            There Set Transformer++ has no last norm, so that of the weights is left out; aggregated residuals have one more
            norm than the weights, so they are refused.
        num_heads: What the released code was asked for (it always asks 4). Set Transformer++ rounds a head to a power of
            two features, so width 96 ran with 3 heads; the model returned has the heads that ran.
    """
    if name not in ("deep_sets", "deep_sets++", "set_transformer", "set_transformer++"):
        raise ValueError(f"the released code has deep_sets, deep_sets++, set_transformer and set_transformer++; got {name!r}.")
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"load_released takes a state_dict, got {type(state_dict).__name__}. Read a file first: "
            "`torch.load(path, weights_only=True)`."
        )
    state = _tensors(state_dict)
    if not any(key.startswith("enc.") for key in state):
        raise ValueError(
            "these are not weights of the released code: it names its layers enc.* and dec.*, "
            f"found {sorted(map(str, state_dict))[:5]}. If a checkpoint holds the weights under a key, pass what that key holds."
        )
    spec = MODELS[name]
    saved_with = _saved_with(state)
    norm = saved_with[0] if norm is None else norm
    if norm not in saved_with:
        raise ValueError(f"norm={norm!r} does not fit these weights, which were saved with norm={saved_with[0]!r}.")
    residual = spec.residual[0] if residual is None else residual
    per_element = "final_layer.weight" in state
    attention = name.startswith("set_transformer")
    last = "final_layer" if per_element else ("dec.4" if attention else "dec.6")
    out_features, width = _shape(state, f"{last}.weight")[:2]
    num_blocks = _num_blocks(state, name)
    in_features = _shape(state, _FIRST_WEIGHT[name])[1]
    if name == "set_transformer++":
        num_heads = released_num_heads(width, num_heads)

    model = create_model(
        name,
        in_features,
        out_features,
        depth=2 * num_blocks if name == "deep_sets++" else num_blocks,
        width=width,
        norm=norm,
        residual=residual,
        pool=None if per_element else pool,
        order=order,
        output="element" if per_element else "set",
        num_heads=num_heads if attention else DEFAULT_NUM_HEADS,
        num_inducing=_shape(state, f"enc.{int(name.endswith('++'))}.I")[1] if attention else DEFAULT_NUM_INDUCING,
        featurizer=ConvFeaturizer() if per_element else None,
    )
    model.to(next(t.dtype for t in state.values() if t.is_floating_point()))
    names = released_names(state, name, order=order or spec.order[0])
    renamed = {ours: state[theirs] for theirs, ours in names.items() if ours is not None}
    for key in [k for k in renamed if k.endswith((".points", ".seeds"))]:
        renamed[key] = renamed[key].squeeze(0)
    _load(model, renamed)
    return model


def released_names(keys: Iterable[str], name: str, *, order: Order = "released") -> dict[str, str | None]:
    """What each parameter of the released `state_dict` is called in our model; None where the network does not use it.

    Args:
        keys: The released `state_dict`, or its keys.
        name: As in `load_released`.
        order: As in `load_released`.
    """
    keys = list(keys)
    num_blocks = _num_blocks(keys, name)
    names = {key: _rename(key, name, num_blocks, "final_layer.weight" in keys) for key in keys}
    if name == "set_transformer++" and order == "paper":
        last_norm = f"enc.{num_blocks + 1}."
        names |= dict.fromkeys((key for key in keys if key.startswith(last_norm)), None)
    return names


def _tensors(state_dict: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors among what was saved, by the names that the network alone gives them."""
    strange = next((key for key in state_dict if not isinstance(key, str)), None)
    if strange is not None:
        raise TypeError(f"the names in a state_dict must be strings, got {strange!r}.")
    state = {
        key: torch.from_numpy(value.astype(value.dtype.newbyteorder("=")))  # a copy, in this machine's order of bytes
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
        else value
        for key, value in state_dict.items()
    }
    state = {key: value for key, value in state.items() if isinstance(value, Tensor)}
    if any(key.startswith("enc.") for key in state_dict) and not any(key.startswith("enc.") for key in state):
        kinds = sorted({type(value).__name__ for value in state_dict.values()})
        raise TypeError(f"the values of a state_dict must be tensors or numpy arrays of numbers, got {', '.join(kinds[:5])}.")
    empty = next((key for key, value in state.items() if value.is_meta), None)
    if empty is not None:
        raise ValueError(
            f"{empty!r} of these weights is on the meta device, which has shapes and no numbers. Read them to the CPU."
        )
    wrapped = all(key.startswith(_WRAPPED) for key in state)
    return {key.removeprefix(_WRAPPED): value for key, value in state.items()} if wrapped else state


def _num_blocks(keys: Iterable[str], name: str) -> int:
    numbers = {int(key.split(".")[1]) for key in keys if re.match(r"enc\.\d+\.(fc|mab0)\b", key)}
    if numbers and max(numbers) > len(numbers):
        raise ValueError(f"these weights name layer enc.{max(numbers)}, but have {len(numbers)} layers: some are missing.")
    return max(numbers, default=0) + (0 if name.endswith("++") else 1)  # in the ++ models enc.0 is a linear layer


def _rename(key: str, name: str, num_blocks: int, per_element: bool) -> str | None:
    """Our name of a released parameter, or None for one that the released network never uses."""
    head, _, rest = key.partition(".")
    if head == "featurizer":
        return f"featurizer.layers.{rest}"
    if head == "final_layer":
        return f"decoder.{rest}"
    if head == "enc":
        return _rename_encoder(rest, name)
    if per_element:
        return None  # the convolutional networks carry, and ignore, a tail and a decoder
    if head == "dec":
        return _rename_decoder(rest, name)
    tail = num_blocks + 1  # Deep Sets++: norm and fc.1 after a clean path, fc otherwise
    if head == "norm":
        return f"encoder.{tail}.{_affine(rest)}"
    if head == "fc":
        return f"encoder.{tail + 2}.{rest[2:]}" if rest.startswith("1.") else f"encoder.{tail}.{rest}"
    return key


def _rename_encoder(rest: str, name: str) -> str | None:
    number, _, inner = rest.partition(".")
    part, _, leaf = inner.partition(".")
    if not leaf:  # a bare linear layer or norm, or inducing points
        return f"encoder.{number}." + ("points" if part == "I" else _affine(part))
    if name.startswith("set_transformer"):
        block = {"mab0": "gather", "mab1": "scatter"}.get(part, part)
        renamed = _rename_mab(leaf, name)
        if block == "gather" and renamed.startswith("query_norm"):
            return None  # made, and never used, by the released code
        return f"encoder.{number}.{block}.{renamed}"
    names = _RESIDUAL_BLOCK if name == "deep_sets++" else _PLAIN_LAYER
    return f"encoder.{number}.{names.get(part, part)}.{_affine(leaf)}"


def _rename_decoder(rest: str, name: str) -> str:
    if not name.startswith("set_transformer"):
        return f"decoder.{rest}"
    number, _, inner = rest.partition(".")
    if number == "4":
        return f"decoder.out.{inner}"
    if inner == "S":
        return "pool.seeds"
    where = "pool" if number == "0" else f"decoder.blocks.{int(number) - 1}"
    return f"{where}.mab.{_rename_mab(inner.removeprefix('mab.'), name)}"


def _rename_mab(rest: str, name: str) -> str:
    part, _, leaf = rest.partition(".")
    names = _MAB_PLUS_PLUS if name == "set_transformer++" else _MAB
    return f"{names.get(part, part)}.{_affine(leaf)}"


def _affine(leaf: str) -> str:
    return _AFFINE.get(leaf, leaf)


def _shape(state: Mapping[str, Tensor], key: str) -> torch.Size:
    if key not in state:
        raise ValueError(
            f"these weights have no {key!r}, which that model of the released code has. "
            f"Is the model's name right? Found {sorted(state)[:5]} ..."
        )
    if state[key].ndim < 2 or not state[key].is_floating_point():
        raise ValueError(
            f"{key!r} of these weights has dtype {state[key].dtype} and shape {tuple(state[key].shape)}: expected a matrix of "
            "floating-point numbers."
        )
    return state[key].shape


def _saved_with(state: Mapping[str, Tensor]) -> tuple[NormName, ...]:
    """The norms that the names in the weights allow, the likely one first.

    Set norms are saved as weights and biases, the others as weight and bias, feature norms with running statistics as well.
    """
    norm_keys = [key for key in state if re.search(r"(^|\.)norm[QK012]?\.", key)]
    if not norm_keys:
        return ("none",)
    if any(key.endswith("running_mean") for key in norm_keys):
        return ("feature",)
    if any(key.endswith(".weights") for key in norm_keys):
        return ("set", "layer")  # the released layer norm for padded sets, `layer_norml`, uses these names as well
    return ("layer",)


def _load(model: SetModel, renamed: Mapping[str, Tensor]) -> None:
    expected = model.state_dict()
    missing, unexpected = sorted(expected.keys() - renamed.keys()), sorted(renamed.keys() - expected.keys())
    wrong = [k for k in expected.keys() & renamed.keys() if expected[k].shape != renamed[k].shape]
    if missing or unexpected or wrong:
        raise ValueError(
            f"these weights do not fit {model}. Missing: {missing[:5]}; not expected: {unexpected[:5]}; "
            f"of another shape: {sorted(wrong)[:5]}. Check name, norm, residual and order: 'he', 'resnet' and "
            "'agg' are 'clean', 'non_clean' and 'mean' (Deep Sets++) or 'max' (Set Transformer++) here, and order='paper' "
            "has other norms at the end of some encoders than the weights were trained with."
        )
    model.load_state_dict(renamed)
