"""The training loop: any module on any task, on Lightning Fabric; it can be stopped anywhere and resumed bit for bit."""

from __future__ import annotations

import dataclasses
import logging
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from orderless.files import remove_leftovers
from orderless.io.extras import require
from orderless.tasks.augment import SubsampledSets
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.order import BatchOrder, ByElements, BySets, Numbers, Share
from orderless.train.best import Best
from orderless.train.checkpoint import Checkpoints, keeping, random_states, restore_random_states
from orderless.train.compiling import compiled_layers, layered_parts
from orderless.train.config import Execution, TrainConfig
from orderless.train.device import resolve_device
from orderless.train.divergence import TRANSLATED, UNCLEAR, TrainingDiverged, first_not_finite, not_finite_data
from orderless.train.evaluating import (
    Judge,
    Place,
    Scores,
    check_released,
    evaluate_released,
    evaluate_whole,
    last_released_step,
    means,
)
from orderless.train.graphs import CannotRecord, GraphedModel, GraphedSteps, Recorder, make_recorder, say_usual_way
from orderless.train.history import History, Moment, Observer, Row
from orderless.train.identity import check_same_config, check_same_data, check_same_network, check_same_question, digests, name_of
from orderless.train.learner import Held, Learner
from orderless.train.noise import Noise
from orderless.train.one_device import OneDevice, is_enough
from orderless.train.schedule import learning_rate_at
from orderless.train.tracking import closing, make_loggers, only_numbers
from orderless.train.update import Guard, Update
from orderless.train.watch import Taken, Watch

_MOST_STEP_ROWS = 500


class Progress(Protocol):
    """Called after every step."""

    def __call__(
        self, *, step: int, num_steps: int, epoch: int, loss: float, sets_per_second: float, elements_per_second: float
    ) -> None:
        """Step `step` of `num_steps` is done, in epoch `epoch`, counted from 1."""


@dataclass(frozen=True)
class Trained:
    """The end of a run.

    Attributes:
        model: The network with its final weights, in eval mode, as it was tested; those of the moving average, where there is
            one; with `patience` those of the best test.
        scores: (N,) of every metric, set by set, of all test sets in eval mode.
        released: The figures of the released protocol, where that was asked for.
        history: What happened.
        steps: Optimizer steps.
        seconds: Of training and testing, without what a kill threw away.
        peak_memory_mib: Of the GPU, since the run was started or resumed.
    """

    model: nn.Module
    scores: Scores
    released: dict[str, float] | None
    history: History
    steps: int
    seconds: float
    peak_memory_mib: float | None

    @property
    def metrics(self) -> dict[str, float]:
        """The figures to report: means over all test sets."""
        return means(self.scores)


def train_model(
    model: nn.Module,
    judge: Judge,
    train_set: SetDataset,
    test_set: SetDataset,
    config: TrainConfig,
    *,
    folder: str | Path | None = None,
    execution: Execution | None = None,
    observers: Mapping[str, Observer] | None = None,
    resume: bool = True,
    progress: Progress | None = None,
) -> Trained:
    """Trains a network, tests it as it goes, and can be killed at any moment.

    Args:
        model: SetBatch -> Tensor or SetBatch. Its weights are those to start from; it is changed in place.
        judge: A `Task`, or anything else with its `loss` and `per_set`.
        train_set: Sets to learn from.
        test_set: Sets to test on. They decide nothing: training stops after the last epoch, whatever they say. With
            `config.patience` they decide when to stop and which weights to keep, and must be validation sets.
        config: What the result depends on.
        folder: Where checkpoints and the history go; without it nothing is written and nothing can be resumed.
        execution: Where and how the run is computed.
        observers: Called before the first step and after every epoch; what they return goes into the history.
        resume: Continue from the latest checkpoint in `folder`. If False, an existing checkpoint is an error.
        progress: Called after every step.

    Raises:
        TrainingDiverged: If the loss or a gradient becomes NaN or infinite.
    """
    for name, sets in (("train_set", train_set), ("test_set", test_set)):
        if not hasattr(sets, "loader"):
            raise TypeError(f"{name} must be an orderless.tasks.SetDataset, got {type(sets).__name__}.")
    if not isinstance(config, TrainConfig):
        raise TypeError(f"config must be a TrainConfig, got {type(config).__name__}.")
    folder = None if folder is None else Path(folder)
    training = _Training(model, judge, train_set, test_set, config, folder, execution or Execution(), observers or {}, progress)
    with training.settings(), closing(training.fabric.loggers):
        return training.run(resume=resume)


@dataclass
class _Tally:
    """Sums over the steps of the current epoch."""

    steps: int = 0
    sets: int = 0
    elements: int = 0
    loss: float = 0.0  # times sets
    gradient_norm: float = 0.0
    step_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0  # of the steps so far: their sum, kept since it is asked for after every step

    def add(self, taken: Taken) -> None:
        """Counts a step."""
        self.steps, self.sets, self.elements = self.steps + 1, self.sets + taken.num_sets, self.elements + taken.num_elements
        self.loss += taken.loss * taken.num_sets
        self.gradient_norm += taken.gradient_norm

    def time(self, seconds: float) -> None:
        """Takes note of how long a step took."""
        self.step_seconds.append(seconds)
        self.seconds += seconds


class _Training:
    """The state of a run, and what is done with it."""

    def __init__(
        self,
        model: nn.Module,
        judge: Judge,
        train_set: SetDataset,
        test_set: SetDataset,
        config: TrainConfig,
        folder: Path | None,
        execution: Execution,
        observers: Mapping[str, Observer],
        progress: Progress | None,
    ) -> None:
        if not len(train_set) or not len(test_set):
            raise ValueError(f"training needs sets to learn from and to test on, got {len(train_set)} and {len(test_set)}.")
        self.data, self.question = digests(train_set, test_set), name_of(judge)
        self.order = _train_order(train_set, config)  # by whole sets: a batch never has more elements than was asked for
        if config.subsample is not None:
            train_set = SubsampledSets(train_set, config.subsample, config.seed, epochs=config.epochs)
        self.judge, self.train_set, self.test_set, self.config = judge, train_set, test_set, config
        self.execution, self.observers, self.progress = execution, observers, progress
        device = resolve_device(execution.device)
        self.fabric = _make_fabric(execution, config, device, make_loggers(execution.loggers, folder))
        self.device = self.fabric.device  # of several GPUs, this process's own
        self.folder = folder if self.fabric.is_global_zero else None
        self.checkpoints = Checkpoints(folder / "checkpoints") if folder is not None else None
        self.place = Place(self.device, self.fabric.autocast, self.fabric.global_rank, self.fabric.world_size)
        self.num_steps = sum(self._num_groups(epoch) for epoch in range(config.epochs))
        self.config_in_steps = config.for_steps(self.num_steps)  # warmup and average may be given as shares of the run
        _check_num_steps(self.num_steps, len(train_set), config, self.config_in_steps)
        self.noise = _make_noise(config, train_set, self.num_steps, self.place)
        if config.protocol == "released":
            check_released(test_set, config.batch_size)
        self.model = model.to(self.device)  # which also wakes the GPU
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self.average = _make_average(self.model, self.config_in_steps)
        learner = Learner(self.model, judge)
        recorder = _make_recorder(execution, self.device)
        self.layered = layered_parts(self.model, self.evaluated) if execution.compile and recorder else []
        self.compiles_whole = execution.compile and not self.layered
        if self.compiles_whole:
            learner.compile()
        self.learner = self.fabric.setup_module(learner)
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = _make_optimizer(parameters, config)
        self.optimizer = self.fabric.setup_optimizers(optimizer)
        guard = Guard(self.device, optimizer) if self.device.type == "cuda" or recorder else None
        self.update = Update(self.model, self.optimizer, clip_norm=config.clip_norm, average=self.average, guard=guard)
        self.graphed_steps = self._graph_steps(learner, recorder) if recorder else None
        tested: Any = torch.compile(self.evaluated) if self.compiles_whole else self.evaluated
        self.graphed = GraphedModel(tested) if recorder else None
        self.watch = Watch(self.device)
        self.history, self.tally = History(), _Tally()
        self.step = self.epoch = self.batches = 0  # steps in all, epochs that are done, batches done in the current epoch
        self.seconds = 0.0
        self.best = Best() if config.patience is not None else None
        self.released: dict[str, float] | None = None
        self._saved_at = self._clock = time.perf_counter()

    def _graph_steps(self, learner: Learner, recorder: Recorder) -> GraphedSteps | None:
        """Whole steps from recordings, if a step is one batch on one device."""
        if self.config.accumulate > 1 or self.place.world_size > 1:
            say_usual_way("training steps", "a step is recorded where it is one batch (accumulate=1) on one device.")
            return None
        parts = isinstance(self.train_set, SubsampledSets) and self.train_set.gives_parts  # whose sizes are known when drawn
        ragged = parts or len(set(self.train_set.sizes.tolist())) > 1
        answer = torch.compile(self.model) if self.compiles_whole else self.model
        return GraphedSteps(learner, self.update, self.fabric.autocast, recorder, ragged=ragged, answer=answer)

    # ------------------------------------------------------------------------------------------------ the whole run

    def run(self, *, resume: bool) -> Trained:
        finished = self._restore(resume=resume)  # until a step is taken
        if not finished:
            self._open_epoch_rows()
        while self.epoch < self.config.epochs and not (self.best and self.best.waited == self.config.patience):
            finished = False
            self._train_epoch()
            self._end_epoch()
        if self.best is not None:
            self.best.put_back(self.evaluated)
        scores = self._evaluate()
        if not finished:
            self._save()
        elif self.folder is not None:
            with keeping("the history", self.folder):
                self.history.mend(self.folder)
        self.evaluated.eval()  # as it was tested
        peak = torch.cuda.max_memory_allocated(self.device) / 2**20 if self.device.type == "cuda" else None
        return Trained(self.evaluated, scores, self.released, self.history, self.step, self.seconds, peak)

    @property
    def evaluated(self) -> nn.Module:
        """The weights that are tested and kept."""
        return self.model if self.average is None else self.average.module

    @contextmanager
    def settings(self) -> Iterator[None]:
        """The process's settings that the run needs, and what they were afterwards."""
        tf32 = self.config.precision == "tf32"
        before, before_cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        try:
            with warnings.catch_warnings(), compiled_layers(self.layered):
                warnings.filterwarnings("ignore", "TensorFloat32 tensor cores .* not enabled")  # which was decided by `precision`
                yield
        finally:
            torch.set_float32_matmul_precision(before)
            torch.backends.cudnn.allow_tf32 = before_cudnn

    def _open_epoch_rows(self) -> None:
        """Epoch 0: what the network is before it has learned anything."""
        self.history.epochs.append(self._epoch_row(None))
        self.history.observe(self.observers, Moment(self.model, 0, 0))
        self._save()

    # -------------------------------------------------------------------------------------------------- one epoch

    def _train_epoch(self) -> None:
        plan, k = self.order.plan(self.epoch), self.config.accumulate
        groups = [plan[start : start + k] for start in range(0, len(plan), k)][-(-self.batches // k) :]
        batches = self._batches()
        self.model.train()
        for group in groups:
            start = time.perf_counter()
            self._train_step(group, batches)
            self.tally.time(time.perf_counter() - start)
            self.batches += len(group)
            self._after_step()
        self._count(everything=True)

    def _train_step(self, group: Sequence[Numbers], batches: Iterator[LabelledSets]) -> None:
        """One step of the optimizer, on the mean loss over all sets of the group."""
        rate = self._rate(self.step)
        self.update.set_rate(rate)
        mine = [next(batches) for _ in group]
        if self.noise is not None:
            mine = [self.noise.add(batch, self.step, number) for number, batch in enumerate(mine)]
        replayed = self.graphed_steps(mine[0], rate) if self.graphed_steps is not None else None
        measured = self.update.measure(self._gradients(mine, group)) if replayed is None else replayed
        self.step += 1
        self.watch.add(
            measured,
            step=self.step,
            num_sets=sum(len(numbers) for numbers in group),
            num_elements=int(sum(self.train_set.sizes[numbers].sum() for numbers in group)),
            learning_rate=rate,
            batches=tuple(mine),
        )
        self._count()
        if replayed is None:
            self.update.apply()

    def _rate(self, step: int) -> float:
        """The learning rate of a step of the current epoch, which the losses of earlier epochs may have lowered."""
        followed = self.history.epochs if self.config.schedule == "plateau" else []
        losses = [row["train_loss"] for row in followed if row["train_loss"] is not None]
        return learning_rate_at(step, self.num_steps, self.config_in_steps, losses)

    def _gradients(self, batches: Sequence[LabelledSets], group: Sequence[Numbers]) -> Tensor:
        """Puts the gradients of the mean loss over all sets of the group into the weights, and gives the loss."""
        self.optimizer.zero_grad(set_to_none=True)
        if len(batches) > 1 or self.place.world_size > 1:
            return self._sum_gradients(batches, group)
        loss: Tensor = self.learner(Held(batches[0]))
        self.fabric.backward(loss)
        return loss.detach()

    def _sum_gradients(self, batches: Sequence[LabelledSets], group: Sequence[Numbers]) -> Tensor:
        """Gradients of the mean loss over all sets of the group, of which these batches are all or this process's share."""
        total, num_sets = torch.zeros((), device=self.device), sum(len(numbers) for numbers in group)
        for number, (batch, whole) in enumerate(zip(batches, group, strict=True)):
            copies = self.place.world_size if len(whole) < self.place.world_size else 1
            share = len(batch.target) / (num_sets * copies)
            with self.fabric.no_backward_sync(self.learner, enabled=number < len(batches) - 1):
                loss = self.learner(Held(batch)) * share
                self.fabric.backward(loss * self.place.world_size)  # gradients of processes are averaged, shares are to be summed
            total = total + loss.detach()
        return self.fabric.all_reduce(total, reduce_op="sum") if self.place.world_size > 1 else total

    def _count(self, *, everything: bool = False) -> None:
        """Records the steps whose numbers have arrived, and stops at one that is not finite."""
        every = max(1, self.num_steps // _MOST_STEP_ROWS)
        for taken in self.watch.read(everything=everything):
            if not math.isfinite(taken.loss + taken.gradient_norm):
                self._stop(taken)
            self.tally.add(taken)
            if taken.step % every == 0 or taken.step == 1:
                self.history.steps.append(_step_row(taken))

    def _after_step(self) -> None:
        tally = self.tally
        if self.config.protocol == "released" and self.step == last_released_step(self.num_steps):
            scores = evaluate_released(self.evaluated, self.judge, self.test_set, self.config.batch_size, self.place)
            self.released = means(scores)
        if self.progress is not None and self.fabric.is_global_zero and tally.sets:
            seconds = tally.seconds
            self.progress(
                step=self.step,
                num_steps=self.num_steps,
                epoch=self.epoch + 1,
                loss=tally.loss / tally.sets,
                sets_per_second=tally.sets / seconds,
                elements_per_second=tally.elements / seconds,
            )
        if time.perf_counter() - self._saved_at >= self.execution.checkpoint_seconds:
            self._save()

    def _end_epoch(self) -> None:
        self.epoch, self.batches = self.epoch + 1, 0
        due = self.epoch % self.config.evaluate_every == 0 or self.epoch == self.config.epochs
        row = self._epoch_row(self.tally, evaluate=due)
        self.history.epochs.append(row)
        self.history.observe(self.observers, Moment(self.model, self.step, self.epoch))
        self.fabric.log_dict(only_numbers(row), step=self.step)
        self.tally = _Tally()
        if time.perf_counter() - self._saved_at >= self.execution.checkpoint_seconds:
            self._save()

    def _epoch_row(self, tally: _Tally | None, *, evaluate: bool = True) -> Row:
        seconds = tally.seconds if tally else 0.0
        row: Row = {
            "epoch": self.epoch,
            "step": self.step,
            "train_loss": tally.loss / tally.sets if tally else None,
            "learning_rate": self._rate(self.step - 1) if tally else None,
            "gradient_norm": tally.gradient_norm / tally.steps if tally else None,
            "seconds": seconds if tally else None,
            "step_seconds": statistics.median(tally.step_seconds) if tally and tally.step_seconds else None,
            "sets_per_second": tally.sets / seconds if tally and seconds else None,
            "elements_per_second": tally.elements / seconds if tally and seconds else None,
        }
        found = means(self._evaluate()) if evaluate else {}
        if self.best is not None and tally is not None and found:
            self.best.look(self.epoch, next(iter(found.values())), self.evaluated)
        return row | {f"test_{name}": value if math.isfinite(value) else None for name, value in found.items()}

    def _evaluate(self) -> Scores:
        order = _test_order(self.test_set, self.config)
        return evaluate_whole(self.evaluated, self.judge, self.test_set, order, self.place, asked=self.graphed)

    # ------------------------------------------------------------------------------------------------- batches

    def _batches(self) -> Iterator[LabelledSets]:
        """The rest of the epoch's batches, each brought to the device while the one before is computed on."""
        self.order.epoch, self.order.skip = self.epoch, self.batches
        self.train_set.begin_epoch(self.epoch)
        share = Share(self.order, self.place.rank, self.place.world_size) if self.place.world_size > 1 else self.order
        on_gpu = self.device.type == "cuda"
        loader = self.train_set.loader(order=share, num_workers=self.execution.num_workers, pin_memory=on_gpu)
        ahead: LabelledSets | None = None
        for batch in loader:
            coming = self.place.bring(batch)
            if ahead is not None:
                yield ahead
            ahead = coming
        if ahead is not None:
            yield ahead

    def _num_groups(self, epoch: int) -> int:
        return -(-len(self.order.plan(epoch)) // self.config.accumulate)

    # --------------------------------------------------------------------------------------- stopping and resuming

    def _stop(self, taken: Taken) -> NoReturn:
        """Says which tensor was not finite. The weights are those of before the step; the latest checkpoint stays as it is."""
        with self.place.autocast():
            in_data = next(filter(None, map(not_finite_data, taken.batches)), None)
            found = [in_data or first_not_finite(self.model, batch, self.judge.loss) for batch in taken.batches]
        self.history.steps.append(_step_row(taken))
        if self.folder is not None:
            self.history.write(self.folder)
        where = None if self.folder is None else str(self.folder)
        unclear = TRANSLATED if self.execution.compile or self.execution.cuda_graphs else UNCLEAR
        raise TrainingDiverged(taken.step, next(filter(None, found), unclear), where=where, in_data=in_data is not None)

    def _save(self) -> None:
        self._count(everything=True)  # what is kept has no step in it that failed
        now = time.perf_counter()
        self.seconds, self._clock = self.seconds + now - self._clock, now
        if self.folder is not None and self.checkpoints is not None:
            self.checkpoints.save(self.step, self._state())
            with keeping("the history", self.folder):
                self.history.write(self.folder)
        self._saved_at = time.perf_counter()

    def _state(self) -> dict[str, Any]:
        return {
            "config": dataclasses.asdict(self.config),
            "data": self.data,
            "judge": self.question,
            "step": self.step,
            "epoch": self.epoch,
            "batches": self.batches,
            "tally": dataclasses.asdict(self.tally),
            "seconds": self.seconds,
            "released": self.released,
            "history": dataclasses.asdict(self.history),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": None if self.best is None else dataclasses.asdict(self.best),
            "average": None if self.average is None else self.average.state_dict(),
            "random": random_states(self.device),
        }

    def _restore(self, *, resume: bool) -> bool:
        """Goes back to the latest checkpoint; False where there is none."""
        if self.checkpoints is not None and self.folder is not None:  # the first may have been killed while it was written
            remove_leftovers(self.checkpoints.folder)
        if not self.checkpoints:
            return False
        if not resume:
            raise ValueError(f"{self.checkpoints.folder.parent} already holds a run: resume it, or choose another folder.")
        if self.folder is not None:
            remove_leftovers(self.folder)
        state = self.checkpoints.load()
        assert state is not None
        check_same_config(TrainConfig(**state["config"]), self.config)
        # older checkpoints do not have all of this
        check_same_data(state.get("data", self.data), self.data)
        check_same_question(state.get("judge", self.question), self.question)
        check_same_network(state["model"], self.model.state_dict())
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        if self.best is not None:
            self.best = Best(**state["best"])
        self.step, self.epoch, self.batches = state["step"], state["epoch"], state["batches"]
        # checkpoints of before the sum was kept have its parts
        self.tally = _Tally(**{"seconds": sum(state["tally"]["step_seconds"]), **state["tally"]})
        self.history = History(**state["history"])
        self.seconds, self.released = state["seconds"], state["released"]
        restore_random_states(state["random"], self.device)
        return True


def _step_row(taken: Taken) -> Row:
    row = {"step": taken.step, "loss": taken.loss, "gradient_norm": taken.gradient_norm, "learning_rate": taken.learning_rate}
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _check_num_steps(num_steps: int, num_sets: int, config: TrainConfig, config_in_steps: TrainConfig) -> None:
    if not num_steps:
        raise ValueError(
            f"a batch that is not full is left out ({'drop_last' if config.drop_last else 'the released protocol'}), and "
            f"{num_sets} training sets do not fill one of {config.batch_size}."
        )
    if config_in_steps.warmup_steps > num_steps:
        raise ValueError(f"warmup_steps={config.warmup_steps} is more than the run has: {num_steps} steps.")


def _make_noise(config: TrainConfig, train_set: SetDataset, num_steps: int, place: Place) -> Noise | None:
    if config.noise is None:
        return None
    return Noise(config.noise, train_set, seed=config.seed, num_steps=num_steps, device=place.device, rank=place.rank)


def _make_recorder(execution: Execution, device: torch.device) -> Recorder | None:
    if not execution.cuda_graphs:
        return None
    try:
        return make_recorder(device)
    except CannotRecord as reason:
        say_usual_way("training steps and tests", str(reason))
        return None


def _make_fabric(execution: Execution, config: TrainConfig, device: torch.device, loggers: list[Any]) -> Any:
    if is_enough(execution, config):
        return OneDevice(device)
    several = execution.num_devices > 1
    library = require("lightning_fabric", "train")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it advises on the precision that was asked for
    fabric = library.Fabric(
        accelerator=device.type,
        strategy="ddp" if several else "auto",
        devices=execution.num_devices if several or device.type == "cpu" else [device.index],
        precision="bf16-mixed" if config.precision == "bf16-mixed" else "32-true",
        loggers=loggers,
    )
    if several:
        fabric.launch()
    return fabric


def _make_optimizer(parameters: Sequence[nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kinds[config.optimizer](parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)


def _make_average(model: nn.Module, config: TrainConfig) -> AveragedModel | None:
    return None if config.ema_decay is None else AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.ema_decay))


def _train_order(dataset: SetDataset, config: TrainConfig) -> BatchOrder:
    if config.batch_elements is not None:
        return ByElements(dataset.sizes, config.batch_elements, shuffle=True, seed=config.seed)
    released = config.protocol == "released"
    seed = 0 if released else config.seed
    return BySets(len(dataset), config.batch_size, shuffle=True, seed=seed, drop_last=released or config.drop_last)


def _test_order(dataset: SetDataset, config: TrainConfig) -> BatchOrder:
    if config.batch_elements is not None:
        return ByElements(dataset.sizes, max(config.batch_elements, int(dataset.sizes.max(initial=0))))
    return BySets(len(dataset), config.batch_size)
