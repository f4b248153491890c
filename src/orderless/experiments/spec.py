"""One run as data: which network is trained how on which sets. Two runs are the same if their keys are."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from orderless.models import ModelConfig, create_model, list_models
from orderless.models.registry import DEFAULT_EPS, DEFAULT_NUM_HEADS, DEFAULT_NUM_INDUCING, MODELS, check_config
from orderless.tasks.base import Task
from orderless.tasks.objectives import OBJECTIVES
from orderless.tasks.registry import get_task
from orderless.tasks.source import AUTO, MOST
from orderless.train.config import DEFAULT_TRAINING, TrainConfig
from orderless.words import did_you_mean

BASELINE = "baseline:"  # `baseline:moments` is the baseline of that name instead of a network
STANDARDIZE = "standardize"  # the option of `TaskData.create_model` that `create_model` does not have
_MODEL_OPTIONS = (
    *(
        name
        for name, parameter in inspect.signature(create_model).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in ("featurizer", "output")
    ),
    STANDARDIZE,
)
_TRAIN_OPTIONS = tuple(f.name for f in fields(TrainConfig) if f.name != "patience")  # a task has no validation sets to decide
_DATA_OPTIONS = ("data_seed", "num_train", "num_test", "set_size")
_MAY_BE_NONE = {f.name: f.default is None for f in fields(TrainConfig)}
_TRAININGS: dict[str, Mapping[str, Any]] = {"paper": {}, "default": DEFAULT_TRAINING}  # what overrides the paper's settings


@dataclass(frozen=True)
class RunSpec:
    """What a run is. Where it is computed is not part of it.

    Attributes:
        task: Task and source, as in `hematocrit@simulated`.
        model: A name of `list_models()`, or `baseline:NAME` for one of `BASELINES`.
        model_options: Options of `TaskData.create_model`; what is not given has the model's default.
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
            data (`num_train`, `set_size`, ...), all by their own names. `training="default"` has the settings of training
            that estimators have instead of the paper's, and standardises elements where it can, but for what else is set. A
            setting of training that may be None is `none` in words.

    Raises:
        ValueError: If there is no such task, model or option, or a value does not fit.
    """
    options = dict(options or {})
    described = get_task(task.partition("@")[0])
    _check_model(model)
    for name in options:
        _check_name(name)
    training = options.pop("training", "paper")
    if training not in _TRAININGS:
        raise ValueError(
            f"training must be one of {', '.join(_TRAININGS)}; got {training!r}.{did_you_mean(training, _TRAININGS)}"
        )
    if "batch_size" in options and options.get("batch_elements") is not None:
        raise ValueError("batches have batch_size sets, or at most batch_elements elements: set one of the two.")
    paper: dict[str, Any] = {
        "epochs": described.epochs,
        "batch_size": described.batch_size,
        "learning_rate": described.learning_rate,
        **described.train_options,
        **_TRAININGS[training],
    }
    if training == "default" and not model.startswith(BASELINE) and described.why_not_standardize(model) is None:
        options = {STANDARDIZE: True, **options}
    trained = {name: value for name, value in options.items() if name in _TRAIN_OPTIONS}
    trained |= {name: None for name, value in trained.items() if value == "none" and _MAY_BE_NONE[name]}
    return RunSpec(
        task=task,
        model=model,
        model_options=_model_options(described, model, {n: value for n, value in options.items() if n in _MODEL_OPTIONS}),
        data_options=_data_options(described, task.partition("@")[2], {n: options[n] for n in _DATA_OPTIONS if n in options}),
        train=TrainConfig(**paper | trained),
    )


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """Reads `key=value` texts: numbers, true and false as TOML writes them, anything else as a word."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ValueError(f"expected key=value, such as depth=50; got {text!r}.")
        _check_name(name.strip())
        if name.strip() in options:
            raise ValueError(f"{name.strip()} is set twice.")
        options[name.strip()] = parse_value(value.strip())
    return options


def parse_value(text: str) -> Any:
    """A number, a truth value, or the text itself."""
    if re.fullmatch(r"[+-]?(0|[1-9]\d*(_\d+)*)(\.\d+)?([eE][+-]?\d+)?|true|false", text):
        return tomllib.loads(f"value = {text}")["value"]
    return text


def _model_options(task: Task, model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options for the same network: depth, norm and residual always, the rest where it is not the default."""
    if model.startswith(BASELINE):
        if options:
            raise ValueError(f"{model} is not a network, so it takes no option {next(iter(options))!r}.")
        return {}
    options = dict(options)
    standardize = options.pop(STANDARDIZE, False)
    if not isinstance(standardize, bool):
        raise ValueError(f"standardize must be true or false, got {standardize!r}.")
    if standardize and (reason := task.why_not_standardize(model)):
        raise ValueError(reason)
    legal = MODELS[model]
    said: dict[str, Any] = {"depth": legal.depth, "norm": legal.norm[0], "residual": legal.residual[0]}
    rest: dict[str, Any] = {"width": legal.width, "pool": legal.pool[0], "order": legal.order[0], "eps": DEFAULT_EPS}
    rest |= {"num_heads": DEFAULT_NUM_HEADS, "num_inducing": DEFAULT_NUM_INDUCING, **task.options_of(model)}
    output = OBJECTIVES[task.objective].output
    in_features = legal.in_features or 1
    _check_network(ModelConfig(name=model, in_features=in_features, out_features=1, output=output, **{**said, **rest, **options}))
    options = {name: float(value) if name == "eps" else value for name, value in options.items()}  # 1 and 1.0 are one network
    said |= {name: value for name, value in options.items() if name not in rest or value != rest[name]}
    return said | ({STANDARDIZE: True} if standardize else {})


def _check_network(config: ModelConfig) -> None:
    try:
        check_config(config)
    except ValueError as error:  # in one line: the table of all networks below it is `legal_table()`
        raise ValueError(str(error).partition("\n")[0]) from error


def _data_options(task: Task, source: str, options: Mapping[str, Any]) -> dict[str, int]:
    """The same options for the same sets: only what differs from the paper."""
    paper = {"data_seed": 0, "set_size": task.set_size[0] if task.set_size[0] == task.set_size[1] else None}
    if source not in ("", AUTO) and not task.source(source).finite:  # a publisher's file may have other numbers than the paper
        paper |= {"num_train": task.num_train, "num_test": task.num_test}
    for name, value in options.items():
        least = 0 if name == "data_seed" else 1
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be a whole number, got {value!r}.")
        if value < least:
            raise ValueError(f"{name} must be {least} or more, got {value}.")
        if name != "data_seed" and value > MOST:
            raise ValueError(f"{name} must be at most {MOST:,}, got {value}.")
    return {name: value for name, value in options.items() if name not in paper or value != paper[name]}


def _check_model(model: str) -> None:
    if model in list_models():
        return
    from orderless.evaluate.baselines import BASELINES  # loads scikit-learn, which takes seconds that most commands can spare

    known = [*list_models(), *(BASELINE + name for name in BASELINES)]
    if model not in known:
        raise ValueError(f"there is no model {model!r}.{did_you_mean(model, known)} Models: {', '.join(known)}.")


def _check_name(name: str) -> None:
    known = [*_MODEL_OPTIONS, "training", *_TRAIN_OPTIONS, *_DATA_OPTIONS]
    if name not in known:
        raise ValueError(
            f"there is no option {name!r}.{did_you_mean(name, known)} Of the network: {', '.join(_MODEL_OPTIONS)}. "
            f"Of training: training, {', '.join(_TRAIN_OPTIONS)}. Of the data: {', '.join(_DATA_OPTIONS)}."
        )
