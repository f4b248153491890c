"""The training loop: what it computes, what it writes down, how it stops and resumes."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from small_runs import CPU, run, small_model, small_task, weights
from torch import nn

from orderless.tasks.order import ByElements, BySets
from orderless.train import CheckpointError, Execution, History, TrainConfig, train_model
from orderless.train.loop import Trained


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    return small_task(
        tmp_path_factory.mktemp("cache"), "mnist_var_6_10", source="digits", set_size=None, num_train=60, num_test=30
    )


def bare(data, config, model, *, clip=None):
    """The same training in plain PyTorch, written down again."""
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True)
    order = BySets(len(data.train), config.batch_size, shuffle=True, seed=config.seed)
    for epoch in range(config.epochs):
        for numbers in order.plan(epoch):
            batch = data.train[numbers]
            optimizer.zero_grad()
            data.task.loss(model(batch.sets), batch.target).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    return model


def test_it_trains_exactly_as_a_bare_loop(data):
    config = TrainConfig(epochs=2, batch_size=32, learning_rate=1e-3, seed=3)
    ours = train_model(small_model(data), data.task, data.train, data.test, config, execution=CPU)
    assert torch.equal(weights(ours.model), weights(bare(data, config, small_model(data))))


def test_clipping_is_that_of_pytorch(data):
    config = TrainConfig(epochs=1, batch_size=32, learning_rate=1e-3, clip_norm=0.5)
    ours = train_model(small_model(data), data.task, data.train, data.test, config, execution=CPU)
    torch.testing.assert_close(weights(ours.model), weights(bare(data, config, small_model(data), clip=0.5)))
    unclipped = run(data, epochs=1)
    assert not torch.allclose(weights(ours.model), weights(unclipped.model))


def test_accumulated_batches_step_like_one_large_batch(data):
    """100 sets in batches of 16: the last batch has 4, so a mean of means would be wrong."""
    whole = run(data, batch_size=100, epochs=3)
    parts = run(data, batch_size=16, accumulate=7, epochs=3)
    assert whole.steps == parts.steps == 3
    torch.testing.assert_close(weights(parts.model), weights(whole.model), rtol=0, atol=2e-5)
    assert parts.history.epochs[-1]["train_loss"] == pytest.approx(whole.history.epochs[-1]["train_loss"], rel=1e-5)


def test_the_seed_decides_the_order(data):
    first, second = (run(data, small_model(data, seed=0), seed=seed) for seed in (0, 1))
    assert not torch.equal(weights(first.model), weights(second.model))


def test_batches_by_elements_train_on_ragged_sets(ragged):
    model = small_model(ragged, depth=2)
    seen = []
    done = run(ragged, model, batch_elements=50, epochs=1, progress=lambda **told: seen.append(told))
    plan = ByElements(ragged.train.sizes, 50, shuffle=True, seed=0).plan(0)
    assert done.steps == len(plan) == len(seen)
    assert all(ragged.train.sizes[numbers].sum() <= 50 for numbers in plan)
    assert done.scores["mse"].shape == (30,)


def test_the_moving_average_is_what_is_tested_and_kept(data):
    decay = 0.5
    states = []
    watched = {"weights": lambda moment: {"sum": states.append(weights(moment.model).clone()) or 0.0}}
    done = run(data, batch_size=100, epochs=3, ema_decay=decay, observers=watched)
    average = states[1]  # after the first step the average is the network itself
    for state in states[2:]:
        average = decay * average + (1 - decay) * state
    torch.testing.assert_close(weights(done.model), average, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(weights(done.model), states[-1])
    expected = data.task.per_set(done.model.eval()(data.test[:].sets), data.test[:].target)["mse"].mean()
    assert done.metrics["mse"] == pytest.approx(expected.item(), rel=1e-5)


def test_shares_of_steps_are_those_of_the_run(data):
    steps = 4 * 10  # batches of ten of a hundred sets
    shares = run(data, epochs=4, batch_size=10, schedule="cosine", warmup_share=0.1, ema_share=0.25)
    numbers = run(data, epochs=4, batch_size=10, schedule="cosine", warmup_steps=steps // 10, ema_decay=0.9)
    assert weights(shares.model).equal(weights(numbers.model))


def test_warmup_and_cosine_reach_the_optimizer(data):
    done = run(data, epochs=4, schedule="cosine", warmup_steps=4)
    rates = [row["learning_rate"] for row in done.history.steps]
    assert rates[:4] == pytest.approx([0.00025, 0.0005, 0.00075, 0.001])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[-1] < 0.0001


def test_a_plateau_of_the_training_loss_reaches_the_optimizer_and_outlives_a_stop(data, tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.train.schedule.PLATEAU_PATIENCE", 0)
    monkeypatch.setattr("orderless.train.schedule._PLATEAU_THRESHOLD", 0.9)  # so that no epoch is good enough
    options = {"epochs": 4, "schedule": "plateau", "batch_size": 50}
    whole = run(data, small_model(data), **options)
    assert [row["learning_rate"] for row in whole.history.epochs[1:]] == [1e-3, 1e-3, 5e-4, 2.5e-4]
    assert [row["learning_rate"] for row in whole.history.steps] == [1e-3] * 4 + [5e-4] * 2 + [2.5e-4] * 2
    for step in (3, 5):
        with pytest.raises(Stopped):
            run(data, small_model(data), folder=tmp_path, progress=stop_at(step), **options)
    resumed = run(data, small_model(data, seed=9), folder=tmp_path, **options)
    assert torch.equal(weights(resumed.model), weights(whole.model))


def test_a_last_batch_that_is_not_full_may_be_left_out(data):
    done = run(data, epochs=2, batch_size=32, drop_last=True)
    assert done.steps == 2 * 3
    with pytest.raises(ValueError, match=r"is left out \(drop_last\), and 100 training sets do not fill one of 128"):
        run(data, batch_size=128, drop_last=True)


def test_adamw_decays_weights(data):
    plain, decayed = (run(data, optimizer="adamw", weight_decay=decay) for decay in (0.0, 10.0))
    assert weights(decayed.model).norm() < 0.99 * weights(plain.model).norm()


def test_bf16_is_near_and_not_the_same(data):
    full, mixed = run(data), run(data, precision="bf16-mixed")
    assert mixed.metrics["mse"] == pytest.approx(full.metrics["mse"], rel=0.05)
    assert not torch.equal(weights(full.model), weights(mixed.model))
    assert mixed.scores["mse"].dtype == torch.float64


def test_tf32_is_on_during_the_run_and_off_after(data):
    seen = set()
    run(data, epochs=1, precision="tf32", progress=lambda **_: seen.add(torch.get_float32_matmul_precision()))
    assert seen == {"high"}
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_history_says_what_happened(data, tmp_path):
    done = run(data, epochs=3, evaluate_every=2, folder=tmp_path)
    rows = done.history.epochs
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert [row["step"] for row in rows] == [0, 4, 8, 12]
    assert ["test_mse" in row for row in rows] == [True, False, True, True]
    assert rows[0]["train_loss"] is None
    assert rows[-1]["test_mse"] == pytest.approx(done.metrics["mse"])
    assert rows[1]["sets_per_second"] * 10 == pytest.approx(rows[1]["elements_per_second"])
    losses = [row["loss"] for row in done.history.steps]
    assert len(losses) == 12
    weighted = np.average(losses[:4], weights=[32, 32, 32, 4])
    assert rows[1]["train_loss"] == pytest.approx(weighted)
    assert History.read(tmp_path) == done.history
    assert (tmp_path / "epochs.csv").read_text().splitlines()[0].startswith("epoch,step,train_loss")
    assert len((tmp_path / "steps.csv").read_text().splitlines()) == 13


def test_observers_look_before_the_first_step_and_after_each_epoch(data):
    done = run(data, observers={"norm": lambda moment: {"value": weights(moment.model).norm().item()}})
    rows = done.history.observed["norm"]
    assert [(row["epoch"], row["step"]) for row in rows] == [(0, 0), (1, 4), (2, 8)]
    assert rows[0]["value"] == pytest.approx(weights(small_model(data)).norm().item())
    assert rows[-1]["value"] == pytest.approx(weights(done.model).norm().item())


def test_testing_is_in_eval_mode_and_training_goes_on_in_training_mode(data):
    modes = []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small_model(data)

        def forward(self, sets):
            modes.append((self.training, torch.is_grad_enabled()))
            return self.inner(sets)

    run(data, Watched(), epochs=1)
    assert modes == [(False, False)] * 2 + [(True, True)] * 4 + [(False, False)] * 4  # 50 test sets are two batches


def test_every_test_set_is_tested_once_and_in_its_order(data):
    done = run(data, epochs=1)
    alone = torch.stack([data.task.per_set(done.model(data.test[[i]].sets), data.test[[i]].target)["mse"][0] for i in range(50)])
    torch.testing.assert_close(done.scores["mse"].float(), alone.detach(), rtol=1e-4, atol=1e-5)


def test_the_released_protocol_drops_last_batches_and_fixes_the_order(data):
    done = run(data, protocol="released", seed=5, epochs=8)
    assert done.steps == 8 * 3
    same_order = run(data, small_model(data, seed=0), protocol="released", seed=9, epochs=8)
    assert torch.equal(weights(done.model), weights(same_order.model))
    assert done.released["mse"] != done.metrics["mse"]
    with pytest.raises(ValueError, match="100 training sets do not fill one of 128"):
        run(data, protocol="released", batch_size=128)


def test_the_released_figure_is_of_the_last_step_that_twenty_divides(data):
    """24 steps: the figure is that of step 20, in training mode, on one full batch of 32 of the 50 test sets."""
    stopped = []

    def stop(**told):
        if told["step"] == 20:
            stopped.append({name: value.clone() for name, value in model.state_dict().items()})

    model = small_model(data, norm="feature")
    done = run(data, model, protocol="released", epochs=8, progress=stop)
    again = small_model(data, norm="feature")
    again.load_state_dict(stopped[0])
    batch = data.test[BySets(50, 32, shuffle=True, seed=0, drop_last=True).plan(0)[0]]
    expected = data.task.loss(again.train()(batch.sets), batch.target).item()
    assert done.released["mse"] == pytest.approx(expected, rel=1e-5)


def test_the_released_figure_survives_a_stop_after_its_step_and_is_of_the_moving_average(data, tmp_path):
    options = {"protocol": "released", "epochs": 8, "ema_decay": 0.5}
    whole = run(data, **options)
    with pytest.raises(Stopped):
        run(data, folder=tmp_path, progress=stop_at(22), **options)
    before = History.read(tmp_path)
    resumed = run(data, folder=tmp_path, **options)
    assert resumed.released == whole.released
    assert resumed.released != run(data, **(options | {"ema_decay": None})).released
    assert resumed.seconds > sum(row["seconds"] or 0 for row in before.epochs)


def test_too_few_test_sets_for_the_released_protocol_are_noticed_before_training(data):
    with pytest.raises(ValueError, match="needs 64 test sets or more; there are 50"):
        run(data, protocol="released", batch_size=64, progress=lambda **_: pytest.fail("it trained"))


def test_a_warmup_that_never_ends_is_an_error(data):
    with pytest.raises(ValueError, match="warmup_steps=9 is more than the run has: 8 steps"):
        run(data, warmup_steps=9)
    assert run(data, warmup_steps=8).history.epochs[-1]["learning_rate"] == 1e-3  # in its last step


def test_adamw_is_that_of_pytorch(data):
    model = small_model(data)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.5, fused=True)
    for numbers in BySets(100, 32, shuffle=True).plan(0):
        optimizer.zero_grad()
        data.task.loss(model(data.train[numbers].sets), data.train[numbers].target).backward()
        optimizer.step()
    ours = run(data, epochs=1, optimizer="adamw", weight_decay=0.5)
    assert torch.equal(weights(ours.model), weights(model))


def test_the_gradient_of_all_accumulated_batches_is_clipped_once(data):
    whole = run(data, batch_size=100, epochs=2, clip_norm=0.1)
    parts = run(data, batch_size=16, accumulate=7, epochs=2, clip_norm=0.1)
    torch.testing.assert_close(weights(parts.model), weights(whole.model), rtol=0, atol=2e-5)
    assert parts.history.steps[0]["gradient_norm"] > 0.1  # what is written down is the norm before clipping


def test_an_epoch_has_the_mean_norm_and_the_rate_of_its_last_step(data):
    done = run(data, epochs=1, schedule="cosine")
    steps, row = done.history.steps, done.history.epochs[1]
    assert row["gradient_norm"] == pytest.approx(np.mean([step["gradient_norm"] for step in steps]))
    assert row["learning_rate"] == steps[-1]["learning_rate"]


def test_a_long_run_keeps_at_most_a_thousand_rows_of_steps(data):
    done = run(data, small_model(data, "deep_sets", depth=2, width=4), batch_size=2, epochs=21, evaluate_every=100)
    assert done.steps == 1050
    assert len(done.history.steps) == 1050 // 2 + 1


def test_full_precision_is_on_during_a_run_of_full_precision(data):
    torch.set_float32_matmul_precision("high")
    seen = set()
    try:
        run(
            data, epochs=1, progress=lambda **_: seen.add((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        )
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == {("highest", False)}


class Stopped(Exception):  # noqa: N818
    pass


def stop_at(step):
    def progress(**told):
        if told["step"] == step:
            raise Stopped

    return progress


SETTINGS = {
    "plain": {},
    "average, accumulation, clipping": {"ema_decay": 0.9, "accumulate": 3, "clip_norm": 1.0},  # the last group has one batch
    "warmup and cosine": {"schedule": "cosine", "warmup_steps": 3, "optimizer": "adamw", "weight_decay": 0.1},
    "bf16": {"precision": "bf16-mixed"},
    "released": {"protocol": "released"},
    "by elements": {"batch_elements": 200},
    "plateau": {"schedule": "plateau", "drop_last": True},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("norm", ["set", "feature"])
def test_a_stopped_run_goes_on_bit_for_bit(data, tmp_path, settings, norm):
    whole = run(data, small_model(data, norm=norm), epochs=3, **settings)
    for seed, step in enumerate((1, 2, 4, 5)):  # within an epoch, and at the end of one; later weights come from the checkpoint
        with pytest.raises(Stopped):
            run(data, small_model(data, norm=norm, seed=seed), epochs=3, folder=tmp_path, progress=stop_at(step), **settings)
    resumed = run(data, small_model(data, norm=norm, seed=99), epochs=3, folder=tmp_path, **settings)
    assert torch.equal(weights(resumed.model), weights(whole.model))
    assert resumed.released == whole.released
    assert [row["loss"] for row in resumed.history.steps] == [row["loss"] for row in whole.history.steps]
    assert [row["train_loss"] for row in resumed.history.epochs] == [row["train_loss"] for row in whole.history.epochs]


def test_dropout_goes_on_with_the_same_random_numbers(tmp_path):
    data = small_task(tmp_path / "cache", "point_cloud", source="shapes", num_train=64, num_test=40, set_size=8)
    model = {"name": "set_transformer_pointcloud", "width": 8, "depth": 2}
    whole = run(data, small_model(data, **model), epochs=2, batch_size=16)
    with pytest.raises(Stopped):
        run(data, small_model(data, **model), epochs=2, batch_size=16, folder=tmp_path / "run", progress=stop_at(3))
    torch.manual_seed(1234)
    resumed = run(data, small_model(data, **model), epochs=2, batch_size=16, folder=tmp_path / "run")
    assert torch.equal(weights(resumed.model), weights(whole.model))


def test_workers_change_nothing(data):
    alone = run(data, epochs=1)
    helped = run(data, epochs=1, execution=dataclasses.replace(CPU, num_workers=1))
    assert torch.equal(weights(alone.model), weights(helped.model))


def test_a_finished_run_is_not_trained_again(data, tmp_path):
    first = run(data, folder=tmp_path)
    steps = []
    again = run(data, folder=tmp_path, progress=lambda **told: steps.append(told))
    assert steps == []
    assert again.metrics == first.metrics
    assert torch.equal(weights(again.model), weights(first.model))


def test_a_finished_run_is_not_written_again(data, tmp_path):
    first = run(data, folder=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = run(data, folder=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
    assert again.seconds == first.seconds


@pytest.mark.filterwarnings("ignore:.*is damaged")
def test_a_run_whose_checkpoints_are_all_damaged_never_begins_again_by_itself(data, tmp_path):
    run(data, epochs=1, folder=tmp_path)
    for path in (tmp_path / "checkpoints").iterdir():
        path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CheckpointError, match="all are damaged"):
            run(data, epochs=1, folder=tmp_path)


def test_checkpoints_are_written_as_time_passes(data, tmp_path):
    run(data, folder=tmp_path, execution=Execution(device="cpu", checkpoint_seconds=1e9))
    steps = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert steps == ["step-0000000000.ckpt", "step-0000000008.ckpt"]  # the first and the last, whatever the time


def test_history_on_disk_is_strict_json(data, tmp_path):
    run(data, folder=tmp_path)
    json.loads((tmp_path / "history.json").read_text(), parse_constant=pytest.fail)


def test_nothing_to_learn_from_or_to_test_on_is_an_error(data):
    with pytest.raises(ValueError, match="training needs sets to learn from and to test on, got 100 and 0"):
        train_model(small_model(data), data.task, data.train, Nothing(), TrainConfig(), execution=CPU)


class Nothing:
    sizes, loader = np.zeros(0, np.int64), None

    def __len__(self):
        return 0


def test_what_a_run_gives_is_named():
    assert [f.name for f in dataclasses.fields(Trained)] == [
        "model", "scores", "released", "history", "steps", "seconds", "peak_memory_mib",
    ]  # fmt: skip


@pytest.mark.traced
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning:torch.*")  # torch's own
def test_a_compiled_network_trains_alike(data):
    plain = run(data, small_model(data, "deep_sets", depth=3), epochs=1)
    compiled = run(data, small_model(data, "deep_sets", depth=3), epochs=1, execution=Execution(device="cpu", compile=True))
    torch.testing.assert_close(weights(compiled.model), weights(plain.model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("extra", [{}, {"ema_decay": 0.8}, {"patience": 1}], ids=["plain", "average", "patience"])
def test_the_network_comes_back_in_eval_mode_as_it_was_tested(data, extra):
    assert not any(module.training for module in run(data, epochs=2, **extra).model.modules())


def test_a_folder_may_be_a_word(data, tmp_path):
    config = TrainConfig(epochs=1, batch_size=32)
    train_model(small_model(data), data.task, data.train, data.test, config, folder=str(tmp_path / "run"), execution=CPU)
    assert (tmp_path / "run" / "history.json").is_file()


def test_what_is_no_dataset_and_no_config_is_named(data):
    with pytest.raises(TypeError, match=r"train_set must be an orderless\.tasks\.SetDataset, got LabelledSets"):
        train_model(small_model(data), data.task, data.train[:8], data.test, TrainConfig(), execution=CPU)
    with pytest.raises(TypeError, match="config must be a TrainConfig, got dict"):
        train_model(small_model(data), data.task, data.train, data.test, {"epochs": 1}, execution=CPU)
