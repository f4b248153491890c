"""Models as files: one safetensors file, its header holding the configuration as JSON. Nothing in it can run code."""

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from orderless.files import write_bytes
from orderless.models.base import ModelConfig, SetModel
from orderless.models.registry import MODELS, check_config, check_featurizer
from orderless.nn import ConvFeaturizer, Standardizer

FORMAT = "orderless.model"
VERSION = 1


def save_model(model: SetModel, path: str | os.PathLike[str]) -> None:
    """Writes a model made by `create_model` to one file. A file already there is replaced only when the new one is whole.

    Args:
        model: The model. Its weights, their dtype, buffers, configuration and training or eval mode are kept.
        path: The file to write, by custom ending in `.safetensors`.

    Raises:
        ValueError: If a part of the model is not what `create_model` makes of its configuration: the file holds that and weights.
    """
    from safetensors.torch import save

    _check_saveable(model)
    _check_as_made(model)
    _check_place(Path(path))
    description = {
        "format": FORMAT,
        "version": VERSION,
        "config": asdict(model.config),
        "featurizer": _describe_featurizer(model.featurizer),
        "training": model.training,
    }
    # clones, since safetensors refuses weights that share memory, as a featurizer's may
    tensors = {
        key: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for key, tensor in model.state_dict().items()
    }
    write_bytes(Path(path), save(tensors, metadata={"orderless": json.dumps(description)}))


def load_model(path: str | os.PathLike[str], *, featurizer: nn.Module | None = None) -> SetModel:
    """Reads a model written by `save_model`, on the CPU, in the mode (training or eval) in which it was saved.

    Args:
        path: The file.
        featurizer: A module of the same shape as the featurizer saved, where that was a module of your own: the file holds
            its weights but not its code.
    """
    description, tensors = _read(Path(path))
    config = _config(description, path)
    if config.depth > len(tensors):  # every layer has a tensor: no network is built that the file cannot fill
        raise ValueError(f"{path} is damaged: it says depth {config.depth}, which {len(tensors)} tensors cannot fill.")
    check_featurizer(featurizer, config)
    try:
        with torch.device("meta"):  # shapes only: nothing is allocated for a configuration that turns out not to fit
            featurizer = _rebuild_featurizer(description.get("featurizer"), featurizer, path)
            model = MODELS[config.name].build(config, featurizer)
    except (RuntimeError, TypeError, OverflowError) as error:  # sizes that no tensor has
        raise ValueError(f"{path} is damaged: its configuration is {asdict(config)}.") from error
    expected = model.state_dict()
    wrong = sorted(
        key
        for key in expected.keys() | tensors.keys()
        if key not in expected
        or key not in tensors
        or expected[key].shape != tensors[key].shape
        or expected[key].is_floating_point() != tensors[key].is_floating_point()
    )
    if wrong:
        whose = "the featurizer given" if all(key.startswith("featurizer.") for key in wrong) else "its configuration"
        raise ValueError(f"the tensors in {path} do not fit {whose}: see {wrong[:3]}.")
    tied = _tied_parameters(model)
    model.load_state_dict(tensors, assign=True)  # each tensor in its own dtype
    for first, *others in tied:  # assigning has made them two
        for module, name in others:
            setattr(module, name, getattr(*first))
    return model.train(bool(description.get("training", False)))


def _tied_parameters(model: nn.Module) -> list[list[tuple[nn.Module, str]]]:
    """The places of each parameter that is used in several, as a user's own featurizer may do."""
    places: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                places.setdefault(parameter, []).append((module, name))
    return [where for where in places.values() if len(where) > 1]


def _check_saveable(model: object) -> None:
    if isinstance(model, SetModel):
        return
    inside = next((name for name in ("_orig_mod", "module") if isinstance(getattr(model, name, None), SetModel)), None)
    hint = f" Pass what it wraps: `model.{inside}`." if inside else ""
    raise TypeError(f"save_model takes a model made by create_model, got {type(model).__name__}.{hint}")


def _check_as_made(model: SetModel) -> None:
    """Raises where a layer was exchanged: it would silently be lost, since the file would load as the network it was before."""
    described = _describe_featurizer(model.featurizer)
    with torch.device("meta"):
        featurizer = None if _is_custom(described) else _make_featurizer(described)
        made = MODELS[model.config.name].build(model.config, featurizer)
    ours, usual = (_parts(network, without_featurizer=_is_custom(described)) for network in (model, made))
    for name in dict.fromkeys([*ours, *usual]):
        if ours.get(name) != usual.get(name):
            raise ValueError(
                f"save_model writes networks as create_model makes them, but here {name} is {ours.get(name, 'missing')} instead "
                f"of {usual.get(name, 'nothing')}. Save such a network with code of your own and `torch.save(model.state_dict(), "
                "path)`."
            )


def _parts(model: SetModel, *, without_featurizer: bool) -> dict[str, str]:
    """Every layer and tensor of a network in words, but for a featurizer of the user's own, which is known by its class alone."""
    layers = {name: f"{_class_of(layer)}({_options(layer)})" for name, layer in model.named_modules() if name}
    tensors = {name: f"a tensor {tuple(tensor.shape)}" for name, tensor in model.state_dict().items()}
    left_out = "featurizer" if without_featurizer else None
    return {name: words for name, words in (layers | tensors).items() if name.partition(".")[0] != left_out}


def _class_of(layer: nn.Module) -> str:
    """With its module where that is not ours or PyTorch's: a user's class may have the same name as one of ours."""
    kind = type(layer)
    ours = kind.__module__.partition(".")[0] in ("orderless", "torch")
    return kind.__qualname__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def _options(layer: nn.Module) -> str:
    """What a layer says of itself, but for `sync`, which is about the process that it is trained in."""
    return layer.extra_repr().replace(", sync=True", "")


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; save_model writes one file, such as {path / 'model.safetensors'}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist. Create it first.")


def _read(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. load_model reads the file that save_model wrote.")
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}. load_model reads the file that save_model wrote.")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            # clones: memory of our own, which lives on when the file is replaced
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a whole safetensors file ({error}). load_model reads nothing else; pickled weights (.pt, .pth) "
            "of the authors' code go through `load_released(torch.load(path, weights_only=True), ...)`."
        ) from error
    try:
        description = json.loads(metadata["orderless"])
        if description["format"] != FORMAT:
            raise KeyError("format")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is a safetensors file but not one of save_model's: its header has no orderless configuration."
        ) from error
    if description.get("version") != VERSION:
        raise ValueError(
            f"{path} has format version {description.get('version')!r}, this orderless reads {VERSION}. "
            "Install the version of orderless that wrote it, or a newer one."
        )
    return description, tensors


def _config(description: dict[str, Any], path: str | os.PathLike[str]) -> ModelConfig:
    values = description.get("config")
    names = {f.name for f in fields(ModelConfig)}
    if not isinstance(values, dict) or values.keys() != names or str(values["name"]) not in MODELS:
        raise ValueError(f"{path} is damaged: its configuration is {values!r}, expected the fields {sorted(names)}.")
    config = ModelConfig(**values)
    try:
        check_config(config)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: its configuration is that of no network: {error}") from error
    return config


def _describe_featurizer(featurizer: nn.Module | None) -> dict[str, Any] | None:
    if featurizer is None:
        return None
    if type(featurizer) is ConvFeaturizer:  # a subclass is code of the user's own
        return {"kind": "conv", "in_channels": featurizer.in_channels, "activation": featurizer.activation}
    if type(featurizer) is Standardizer:
        return {"kind": "standard", "features": featurizer.out_features, "clip": featurizer.clip}
    return {"kind": "custom", "class": f"{type(featurizer).__module__}.{type(featurizer).__qualname__}"}


def _rebuild_featurizer(described: Any, given: nn.Module | None, path: str | os.PathLike[str]) -> nn.Module | None:
    kind = described.get("kind") if isinstance(described, dict) else None
    if described is not None and kind not in ("conv", "standard", "custom"):
        raise ValueError(f"{path} is damaged: it names a featurizer {described!r} that this orderless does not know.")
    if described is not None and _is_custom(described):
        if given is None:
            raise ValueError(
                f"{path} was saved with a featurizer of your own, {described.get('class')}: "
                "pass one of the same shape as `load_model(path, featurizer=...)`; its weights will be loaded into it."
            )
        return given
    if given is not None:
        raise ValueError(f"{path} needs no featurizer: it was saved with {described or 'none'}.")
    try:
        return _make_featurizer(described)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged: its featurizer is {described!r}.") from error


def _is_custom(described: dict[str, Any] | None) -> bool:
    return described is not None and described.get("kind") == "custom"


def _make_featurizer(described: dict[str, Any] | None) -> nn.Module | None:
    """One of ours, as it was described; its numbers are among the tensors of the file."""
    if described is None:
        return None
    if described["kind"] == "standard":
        return Standardizer(*torch.ones(2, described["features"]), clip=described["clip"])
    return ConvFeaturizer(described["in_channels"], activation=described["activation"])
