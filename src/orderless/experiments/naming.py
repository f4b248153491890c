"""What networks, options and metrics are called for people: the same in tables, figures and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from orderless.experiments.spec import BASELINE, RunSpec
from orderless.models.registry import MODELS
from orderless.numbers import setting

METRIC_TITLES: Final[Mapping[str, str]] = {
    "mse": "MSE",
    "cross_entropy": "cross entropy",
    "accuracy": "accuracy",
    "num_parameters": "parameters",
    "step_seconds": "ms per step",
    "seconds": "seconds",
    "peak_memory_mib": "peak memory in MiB",
}
SHARES: Final = ("accuracy",)  # of 1, which no axis takes the logarithm of
_RESIDUALS: Final[Mapping[str, str]] = {
    "none": "no residual",
    "clean": "clean path",
    "non_clean": "non-clean path",
    "freq_add": "FreqAdd",
    "mean": "aggregated mean",
    "max": "aggregated max",
    "sum": "aggregated sum",
}
_INGREDIENTS: Final[Mapping[str, str]] = {  # of training, which may be left out
    "warmup_steps": "warmup",
    "warmup_share": "warmup",
    "weight_decay": "weight decay",
    "clip_norm": "clipping of gradients",
    "ema_decay": "moving average",
    "ema_share": "moving average",
    "subsample": "parts of sets",
    "noise": "noise",
}


def title_of_model(model: str) -> str:
    """A network or a baseline, as a recipe names it: `Deep Sets++`."""
    if model.startswith(BASELINE):
        from orderless.evaluate.baselines import BASELINES  # loads scikit-learn: not for names of networks

        return BASELINES[model.removeprefix(BASELINE)].title
    return MODELS[model].title if model in MODELS else model


def title_of_run(spec: RunSpec) -> str:
    """Network and depth: `Deep Sets++ 50`."""
    title = title_of_model(spec.model)
    return title if _has_one_depth(spec) else f"{title} {spec.model_options['depth']}"


def describe_network(spec: RunSpec) -> str:
    """Network, depth and what it is made of: `Deep Sets++ with 50 layers (set norm, clean path)`."""
    title, options = title_of_model(spec.model), spec.model_options
    if _has_one_depth(spec):
        return title
    return f"{title} with {options['depth']} layers{made_of(options.get('norm', ''), options.get('residual', ''))}"


def made_of(norm: str, residual: str) -> str:
    """Norm and residual connections in brackets, where there are some: ` (set norm, clean path)`."""
    parts = [
        describe_option(option, value) for option, value in (("norm", norm), ("residual", residual)) if value not in ("", "none")
    ]
    return f" ({', '.join(parts)})" if parts else ""


def describe_option(option: str, value: Any) -> str:
    """An option and its value, so that they stand alone: `set norm`, `clean path`, `50 layers`, `no warmup`, `batch size 64`."""
    if option == "model":
        return title_of_model(str(value))
    if option == "norm":
        return "no norm" if value == "none" else f"{value} norm"
    if option == "residual":
        return _RESIDUALS.get(value, str(value))
    if option == "depth":
        return f"{value} layers"
    if option == "standardize":
        return "elements standardised" if value else "elements as they come"
    if option in _INGREDIENTS and (value in ("none", None) or value == 0):
        return f"no {_INGREDIENTS[option]}"
    return f"{option.replace('_', ' ')} {setting(value) if isinstance(value, float) else value}"


def varies(option: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an option tells some of these settings apart, and so belongs in their names."""
    return len({repr(one.get(option)) for one in settings}) > 1


def _has_one_depth(spec: RunSpec) -> bool:
    return spec.is_baseline or "depth" not in spec.model_options or MODELS[spec.model].fixed_depth
