"""The training loop: any module on any task, on Lightning Fabric; it can be stopped anywhere and resumed bit for bit."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn

from orderless.files import remove_leftovers
from orderless.tasks.augment import SubsampledSets
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.order import Numbers, Share
from orderless.train.best import Best
from orderless.train.checkpoint import Checkpoints, keeping, random_states, restore_random_states
from orderless.train.compiling import layered_parts
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
from orderless.train.graphs import GraphedModel, GraphedSteps
from orderless.train.history import History, Moment, Observer, Row
from orderless.train.identity import Identity, check_same_network, digests, name_of
from orderless.train.learner import Held, Learner
from orderless.train.schedule import learning_rate_at
from orderless.train.setup import (
    can_record_steps,
    check_num_steps,
    is_ragged,
    make_average,
    make_fabric,
    make_noise,
    make_optimizer,
    order_of_tests,
    order_of_training,
    process_settings,
    recorder_for,
)
from orderless.train.state import RunState, Tally
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
    with process_settings(config, training.layered), closing(training.fabric.loggers):
        return training.run(resume=resume)


class _Training:
    """A run: what it is set up with, the loop over epochs and steps, and what checkpoints keep of it."""

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
        self.identity = Identity(config, digests(train_set, test_set), name_of(judge))
        self.judge, self.config, self.execution = judge, config, execution
        self.observers, self.progress = observers, progress

        # the sets, and how many steps they give
        self.order = order_of_training(train_set, config)
        self.train_set, self.test_set = train_set, test_set
        if config.subsample is not None:
            self.train_set = SubsampledSets(train_set, config.subsample, config.seed, epochs=config.epochs)
        self.num_steps = sum(self._num_groups(epoch) for epoch in range(config.epochs))
        self.config_in_steps = config.for_steps(self.num_steps)  # warmup and average may be given as shares of the run
        check_num_steps(self.num_steps, len(self.train_set), config, self.config_in_steps)
        if config.protocol == "released":
            check_released(test_set, config.batch_size)

        # where it is computed, and where it is kept
        device = resolve_device(execution.device)
        self.fabric = make_fabric(execution, config, device, make_loggers(execution.loggers, folder))
        self.device = self.fabric.device  # of several GPUs, this process's own
        self.place = Place(self.device, self.fabric.autocast, self.fabric.global_rank, self.fabric.world_size)
        self.folder = folder if self.fabric.is_global_zero else None
        self.checkpoints = Checkpoints(folder / "checkpoints") if folder is not None else None

        # the network, and what a step does with it
        self.noise = make_noise(config, self.train_set, self.num_steps, self.place)
        self.model = model.to(self.device)  # which also wakes the GPU
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self.average = make_average(self.model, self.config_in_steps)
        learner = Learner(self.model, judge)
        recorder = recorder_for(execution, self.device)
        self.layered = layered_parts(self.model, self.evaluated) if execution.compile and recorder else []
        compiles_whole = execution.compile and not self.layered
        if compiles_whole:
            learner.compile()
        self.learner = self.fabric.setup_module(learner)
        optimizer = make_optimizer([p for p in self.model.parameters() if p.requires_grad], config)
        self.optimizer = self.fabric.setup_optimizers(optimizer)
        guard = Guard(self.device, optimizer) if self.device.type == "cuda" or recorder else None
        self.update = Update(self.model, self.optimizer, clip_norm=config.clip_norm, average=self.average, guard=guard)
        self.graphed_steps: GraphedSteps | None = None
        if recorder and can_record_steps(config, self.place):
            ragged = is_ragged(self.train_set)
            answer = torch.compile(self.model) if compiles_whole else self.model
            self.graphed_steps = GraphedSteps(learner, self.update, self.fabric.autocast, recorder, ragged=ragged, answer=answer)
        tested: Any = torch.compile(self.evaluated) if compiles_whole else self.evaluated
        self.graphed = GraphedModel(tested) if recorder else None
        self.watch = Watch(self.device)

        # what changes, and so is in every checkpoint
        self.state = RunState(best=Best() if config.patience is not None else None)
        self.weights: dict[str, Any] = {"model": self.model, "optimizer": self.optimizer, "average": self.average}
        self._saved_at = self._clock = time.perf_counter()

    # ------------------------------------------------------------------------------------------------ the whole run

    def run(self, *, resume: bool) -> Trained:
        """The algorithm: test, then learn and test until it is enough, then test the weights that are kept."""
        resumed = self._restore(resume=resume)
        if not resumed:
            self._test_before_training()
        was_finished = resumed and self._is_finished()
        while not self._is_finished():
            self._train_epoch()
            self._end_epoch()
        if self.state.best is not None:
            self.state.best.put_back(self.evaluated)
        scores = self._evaluate()
        if not was_finished:
            self._save()
        elif self.folder is not None:
            with keeping("the history", self.folder):
                self.state.history.mend(self.folder)
        self.evaluated.eval()  # as it was tested
        peak = torch.cuda.max_memory_allocated(self.device) / 2**20 if self.device.type == "cuda" else None
        state = self.state
        return Trained(self.evaluated, scores, state.released, state.history, state.step, state.seconds, peak)

    def _is_finished(self) -> bool:
        """Whether all epochs are done, or enough of them have brought no better test."""
        best = self.state.best
        return self.state.epoch >= self.config.epochs or (best is not None and best.waited == self.config.patience)

    @property
    def evaluated(self) -> nn.Module:
        """The weights that are tested and kept."""
        return self.model if self.average is None else self.average.module

    def _test_before_training(self) -> None:
        """Epoch 0: what the network is before it has learned anything."""
        self.state.history.epochs.append(self._epoch_row(None))
        self.state.history.observe(self.observers, Moment(self.model, 0, 0))
        self._save()

    # -------------------------------------------------------------------------------------------------- one epoch

    def _train_epoch(self) -> None:
        plan, k = self.order.plan(self.state.epoch), self.config.accumulate
        groups = [plan[start : start + k] for start in range(0, len(plan), k)][-(-self.state.batches // k) :]
        batches = self._batches()
        self.model.train()
        for group in groups:
            start = time.perf_counter()
            self._train_step(group, batches)
            self.state.tally.time(time.perf_counter() - start)
            self.state.batches += len(group)
            self._after_step()
        self._count(everything=True)

    def _train_step(self, group: Sequence[Numbers], batches: Iterator[LabelledSets]) -> None:
        """One step of the optimizer, on the mean loss over all sets of the group."""
        rate = self._rate(self.state.step)
        self.update.set_rate(rate)
        mine = [next(batches) for _ in group]
        if self.noise is not None:
            mine = [self.noise.add(batch, self.state.step, number) for number, batch in enumerate(mine)]
        replayed = self.graphed_steps(mine[0], rate) if self.graphed_steps is not None else None
        measured = self.update.measure(self._gradients(mine, group)) if replayed is None else replayed
        self.state.step += 1
        self.watch.add(
            measured,
            step=self.state.step,
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
        followed = self.state.history.epochs if self.config.schedule == "plateau" else []
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
            self.state.tally.add(taken)
            if taken.step % every == 0 or taken.step == 1:
                self.state.history.steps.append(_step_row(taken))

    def _after_step(self) -> None:
        tally = self.state.tally
        if self.config.protocol == "released" and self.state.step == last_released_step(self.num_steps):
            scores = evaluate_released(self.evaluated, self.judge, self.test_set, self.config.batch_size, self.place)
            self.state.released = means(scores)
        if self.progress is not None and self.fabric.is_global_zero and tally.sets:
            seconds = tally.seconds
            self.progress(
                step=self.state.step,
                num_steps=self.num_steps,
                epoch=self.state.epoch + 1,
                loss=tally.loss / tally.sets,
                sets_per_second=tally.sets / seconds,
                elements_per_second=tally.elements / seconds,
            )
        self._save_if_due()

    def _end_epoch(self) -> None:
        self.state.epoch, self.state.batches = self.state.epoch + 1, 0
        due = self.state.epoch % self.config.evaluate_every == 0 or self.state.epoch == self.config.epochs
        row = self._epoch_row(self.state.tally, evaluate=due)
        self.state.history.epochs.append(row)
        self.state.history.observe(self.observers, Moment(self.model, self.state.step, self.state.epoch))
        self.fabric.log_dict(only_numbers(row), step=self.state.step)
        self.state.tally = Tally()
        self._save_if_due()

    def _epoch_row(self, tally: Tally | None, *, evaluate: bool = True) -> Row:
        seconds = tally.seconds if tally else 0.0
        row: Row = {
            "epoch": self.state.epoch,
            "step": self.state.step,
            "train_loss": tally.loss / tally.sets if tally else None,
            "learning_rate": self._rate(self.state.step - 1) if tally else None,
            "gradient_norm": tally.gradient_norm / tally.steps if tally else None,
            "seconds": seconds if tally else None,
            "step_seconds": statistics.median(tally.step_seconds) if tally and tally.step_seconds else None,
            "sets_per_second": tally.sets / seconds if tally and seconds else None,
            "elements_per_second": tally.elements / seconds if tally and seconds else None,
        }
        found = means(self._evaluate()) if evaluate else {}
        if self.state.best is not None and tally is not None and found:
            self.state.best.look(self.state.epoch, next(iter(found.values())), self.evaluated)
        return row | {f"test_{name}": value if math.isfinite(value) else None for name, value in found.items()}

    def _evaluate(self) -> Scores:
        order = order_of_tests(self.test_set, self.config)
        return evaluate_whole(self.evaluated, self.judge, self.test_set, order, self.place, asked=self.graphed)

    # ------------------------------------------------------------------------------------------------- batches

    def _batches(self) -> Iterator[LabelledSets]:
        """The rest of the epoch's batches, each brought to the device while the one before is computed on."""
        self.order.epoch, self.order.skip = self.state.epoch, self.state.batches
        self.train_set.begin_epoch(self.state.epoch)
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
        self.state.history.steps.append(_step_row(taken))
        if self.folder is not None:
            self.state.history.write(self.folder)
        where = None if self.folder is None else str(self.folder)
        unclear = TRANSLATED if self.execution.compile or self.execution.cuda_graphs else UNCLEAR
        raise TrainingDiverged(taken.step, next(filter(None, found), unclear), where=where, in_data=in_data is not None)

    def _save_if_due(self) -> None:
        if time.perf_counter() - self._saved_at >= self.execution.checkpoint_seconds:
            self._save()

    def _save(self) -> None:
        self._count(everything=True)  # what is kept has no step in it that failed
        now = time.perf_counter()
        self.state.seconds, self._clock = self.state.seconds + now - self._clock, now
        if self.folder is not None and self.checkpoints is not None:
            self.checkpoints.save(self.state.step, self._kept())
            with keeping("the history", self.folder):
                self.state.history.write(self.folder)
        self._saved_at = time.perf_counter()

    def _kept(self) -> dict[str, Any]:
        """All that a checkpoint keeps: which run it is, how far it has come, its weights, and where its random numbers stand."""
        return {
            **asdict(self.identity),  # config, data, judge
            **asdict(self.state),  # step, epoch, batches, tally, seconds, released, history, best
            **{name: None if part is None else part.state_dict() for name, part in self.weights.items()},
            "random": random_states(self.device),
        }

    def _put_back(self, kept: Mapping[str, Any]) -> None:
        """Makes the run what it was when that was kept."""
        self.identity.check(kept)
        check_same_network(kept["model"], self.model.state_dict())
        self.state = RunState.of_checkpoint(kept)
        for name, part in self.weights.items():
            if part is not None:
                part.load_state_dict(kept[name])
        restore_random_states(kept["random"], self.device)

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
        kept = self.checkpoints.load()
        assert kept is not None
        self._put_back(kept)
        return True


def _step_row(taken: Taken) -> Row:
    row = {"step": taken.step, "loss": taken.loss, "gradient_norm": taken.gradient_norm, "learning_rate": taken.learning_rate}
    return {name: value if math.isfinite(value) else None for name, value in row.items()}
