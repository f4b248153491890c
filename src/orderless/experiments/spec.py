"""One run as data: which network is trained how on which sets. Two runs are the same if their keys are."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from orderless.evaluate.baselines import BASELINES
from orderless.models import create_model, list_models
from orderless.models.registry import DEFAULT_EPS, DEFAULT_NUM_HEADS, DEFAULT_NUM_INDUCING, MODELS
from orderless.tasks.registry import get_task
from orderless.train.config import TrainConfig

BASELINE = "baseline:"  # `baseline:moments` is the baseline of that name instead of a network
_MODEL_OPTIONS = tuple(
    name
    for name, parameter in inspect.signature(create_model).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY and name not in ("featurizer", "output")
)
_TRAIN_OPTIONS = tuple(f.name for f in fields(TrainConfig))
_DATA_OPTIONS = ("data_seed", "num_train", "num_test", "set_size")


@dataclass(frozen=True)
class RunSpec:
    """What a run is. Where it is computed is not part of it.

    Attributes:
        task: Task and source, as in `hematocrit@simulated`.
        model: A name of `list_models()`, or `baseline:NAME` for one of `BASELINES`.
        model_options: Options of `create_model`; what is not given has the model's default.
        data_options: `data_seed`, `num_train`, `num_test`, `set_size`; what is not given is as in the paper.
        train: How it is trained. Of no meaning to a baseline.
    """

    task: str
    model: str
    model_options: Mapping[str, Any] = field(default_factory=dict)
    data_options: Mapping[str, int] = field(default_factory=dict)
    train: TrainConfig = field(default_factory=TrainConfig)

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline instead of a network."""
        return self.model.startswith(BASELINE)

    @property
    def key(self) -> str:
        """Names a run in files and folders: readable words, then a digest of everything that is not a default."""
        text = json.dumps(self._identity(), sort_keys=True)
        depth = f"-{self.model_options['depth']}" if "depth" in self.model_options else ""
        words = f"{self.task}-{self.model}{depth}-s{self.train.seed}".replace("++", "pp").replace("@", "-")
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', words)}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def _identity(self) -> dict[str, Any]:
        train = {"seed": self.train.seed} if self.is_baseline else self.train.changed()
        return {
            "task": self.task,
            "model": self.model,
            "model_options": dict(self.model_options),
            "data_options": dict(self.data_options),
            "train": train,
        }

    def to_json(self) -> dict[str, Any]:
        """Every field, defaults included: `RunSpec.from_json` reads it."""
        return {**self._identity(), "train": asdict(self.train)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> RunSpec:
        """The run that `to_json` described."""
        return cls(**{**content, "train": TrainConfig(**content["train"])})


def make_spec(task: str, model: str, options: Mapping[str, Any] | None = None) -> RunSpec:
    """A run with the settings of the paper, but for `options`.

    Args:
        task: A task and its source, as in `normal_var@exact`.
        model: A name of `list_models()`, or `baseline:NAME`.
        options: Options of the network (`depth`, `norm`, ...), of training (`epochs`, `learning_rate`, `seed`, ...) and of the
            data (`num_train`, `set_size`, ...), all by their own names.
    """
    options = dict(options or {})
    described = get_task(task.partition("@")[0])
    _check_model(model)
    for name in options:
        _check_name(name)
    paper = {"epochs": described.epochs, "batch_size": described.batch_size, "learning_rate": described.learning_rate}
    return RunSpec(
        task=task,
        model=model,
        model_options=_model_options(model, {name: value for name, value in options.items() if name in _MODEL_OPTIONS}),
        data_options={
            name: options[name] for name in _DATA_OPTIONS if name in options and (name, options[name]) != ("data_seed", 0)
        },
        train=TrainConfig(**paper | {name: value for name, value in options.items() if name in _TRAIN_OPTIONS}),
    )


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """Reads `key=value` texts: numbers, true and false as TOML writes them, anything else as a word."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"expected key=value, such as depth=50; got {text!r}.")
        _check_name(name.strip())
        options[name.strip()] = parse_value(value.strip())
    return options


def parse_value(text: str) -> Any:
    """A number, a truth value, or the text itself."""
    if re.fullmatch(r"[+-]?\d[\d_]*(\.\d+)?([eE][+-]?\d+)?|true|false", text):
        return tomllib.loads(f"value = {text}")["value"]
    return text


def _model_options(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options for the same network: depth, norm and residual always, the rest where it is not the default."""
    if model.startswith(BASELINE):
        if options:
            raise ValueError(f"{model} is no network and takes no option {next(iter(options))!r}.")
        return {}
    legal = MODELS[model]
    said = {"depth": legal.depth, "norm": legal.norm[0], "residual": legal.residual[0]}
    rest = {"width": legal.width, "order": legal.order[0], "eps": DEFAULT_EPS}
    rest |= {"num_heads": DEFAULT_NUM_HEADS, "num_inducing": DEFAULT_NUM_INDUCING}
    return said | {name: value for name, value in options.items() if name not in rest or value != rest[name]}


def _check_model(model: str) -> None:
    known = [*list_models(), *(BASELINE + name for name in BASELINES)]
    if model not in known:
        raise ValueError(f"there is no model {model!r}.{_did_you_mean(model, known)} Models: {', '.join(known)}.")


def _check_name(name: str) -> None:
    known = [*_MODEL_OPTIONS, *_TRAIN_OPTIONS, *_DATA_OPTIONS]
    if name not in known:
        raise ValueError(
            f"there is no option {name!r}.{_did_you_mean(name, known)} Of the network: {', '.join(_MODEL_OPTIONS)}. "
            f"Of training: {', '.join(_TRAIN_OPTIONS)}. Of the data: {', '.join(_DATA_OPTIONS)}."
        )


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
