import warnings

import numpy as np
import torch
from estimators.ragged import classifier, draw, regressor

from orderless.estimators.covariates import CovariateModel
from orderless.estimators.members import Network, seeds_of, undisturbed
from orderless.models import SetModel

X, Y, CENTRE = draw(30)


def test_a_network_has_room_for_covariates_where_there_are_some():
    options = {"depth": 2, "width": 8, "pool": "mean"}
    assert isinstance(Network("deep_sets++", 3, 2, 0, options).build(), SetModel)
    assert isinstance(Network("deep_sets++", 3, 2, 4, options).build(), CovariateModel)


def test_members_take_turns_in_how_they_pool_and_keep_to_the_mean_where_elements_are_drawn():
    pools = [
        [m.config.pool for m in classifier(epochs=1, ensemble_size=3, **o).fit(X, Y).models_] for o in ({}, {"max_elements": 2})
    ]
    assert pools == [["mean", "max", "mean"], ["mean"] * 3]


def test_seeds_of_members_differ():
    assert len({*seeds_of(0, 5), *seeds_of(1, 5)}) == 10
    assert seeds_of(0, 5)[:3] == seeds_of(0, 3)


def test_random_numbers_are_afterwards_what_they_were():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with undisturbed(torch.device("cpu")):
        torch.rand(3)
        np.random.rand(3)  # noqa: NPY002
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn_explicit("advice", UserWarning, "fabric.py", 1, module="lightning_fabric.fabric")
        assert not caught
    assert torch.equal(torch.get_rng_state(), before)


def test_the_history_has_the_names_of_an_estimator():
    first, last = (classifier(epochs=2).fit(X, Y).history_[0][i] for i in (0, -1))
    assert set(last) == {
        "epoch", "step", "train_loss", "learning_rate", "seconds", "validation_cross_entropy", "validation_accuracy",
    }  # fmt: skip
    assert (first["epoch"], last["epoch"]) == (0, 2)


def test_networks_end_in_eval_mode_on_the_cpu():
    for network in regressor(ensemble_size=2, epochs=1).fit(X, CENTRE).models_:
        assert not network.training
        assert {p.device.type for p in network.parameters()} == {"cpu"}
