"""A run is resumed with what it began with, or not at all (`identity.py`)."""

import copy

import pytest
from small_runs import CPU, run, small_model, small_task
from torch import nn

from orderless.tasks.dataset import SetDataset
from orderless.train import TrainConfig, train_model
from orderless.train.checkpoint import Checkpoints


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"))


def test_a_run_goes_on_only_with_the_sets_that_it_began_with(data, tmp_path):
    run(data, epochs=1, folder=tmp_path)
    changed = copy.copy(data)
    changed.train = SetDataset(data.train.stored, data.train.target + 1, data.train.transform)
    with pytest.raises(ValueError, match=r"but the training sets are not the same: their number, sizes or targets differ\."):
        run(changed, epochs=1, folder=tmp_path)
    changed.test = changed.train
    with pytest.raises(ValueError, match=r"but the training sets and the test sets are not the same"):
        run(changed, epochs=1, folder=tmp_path)


def test_a_checkpoint_without_a_word_on_its_data_is_gone_on_with(data, tmp_path):
    """As those of earlier versions are."""
    run(data, epochs=1, folder=tmp_path)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    state = checkpoints.load()
    del state["data"]
    checkpoints.save(state["step"], state)
    assert run(data, epochs=1, folder=tmp_path).steps == state["step"]


def test_a_run_goes_on_only_as_it_began(data, tmp_path):
    run(data, epochs=1, folder=tmp_path)
    with pytest.raises(ValueError, match=r"learning_rate was 0.001 and is 0.1; seed was 0 and is 1. Choose another folder"):
        run(data, epochs=1, folder=tmp_path, learning_rate=0.1, seed=1)
    with pytest.raises(ValueError, match="already holds a run"):
        run(data, epochs=1, folder=tmp_path, resume=False)


class Doubled:
    """Another question about the same sets."""

    def __init__(self, task):
        self.task = task

    def loss(self, output, target):
        return 2 * self.task.loss(output, target)

    def per_set(self, output, target):
        return self.task.per_set(output, target)


def test_a_run_goes_on_with_the_question_and_the_network_that_it_began_with(data, tmp_path):
    run(data, folder=tmp_path)
    config = TrainConfig(epochs=2, batch_size=32, learning_rate=1e-3)
    with pytest.raises(ValueError, match=r"its loss and metrics were those of Task normal_var and are those of Doubled\. Choose"):
        train_model(small_model(data), Doubled(data.task), data.train, data.test, config, folder=tmp_path, execution=CPU)
    with pytest.raises(ValueError, match=r"the network is another: encoder\.0\.\S+ is not as it was, nor are \d+ more"):
        run(data, small_model(data, width=16), folder=tmp_path)


class WithExtraState(nn.Module):
    """Extra state, and weights that have no shape before the first call."""

    def __init__(self, data):
        super().__init__()
        self.inner, self.last, self.asked = small_model(data), nn.LazyLinear(1), 0

    def forward(self, sets):
        return self.last(self.inner(sets))

    def get_extra_state(self):
        return {"asked": self.asked}

    def set_extra_state(self, state):
        self.asked = state["asked"]


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_has_no_shape_is_gone_on_with(data, tmp_path):
    done = run(data, WithExtraState(data), folder=tmp_path, epochs=1)
    assert run(data, WithExtraState(data), folder=tmp_path, epochs=1).steps == done.steps
