from dataclasses import replace
from pathlib import Path

import numpy as np

from orderless.estimators import defaults
from orderless.estimators.defaults import (
    BATCH_ELEMENTS,
    BATCH_SETS,
    EPOCH_ELEMENTS,
    EPOCHS,
    FEW_BATCHES,
    FEW_SETS,
    MIN_DRAWN,
    MOST_DRAWN,
    decide,
    is_drawn,
    most_elements,
    pools_of,
)
from orderless.experiments.spec import make_spec
from orderless.train import TrainConfig
from orderless.train.config import DEFAULT_TRAINING


def settle(sizes, epochs="auto", batch_elements="auto", max_elements="auto", draws=True):
    return decide(np.asarray(sizes), epochs=epochs, batch_elements=batch_elements, max_elements=max_elements, draws=draws)


def test_small_sets_give_all_their_elements_and_few_sets_more_epochs():
    few, many = settle([10] * 40), settle([10] * 4000)
    assert few.max_elements is None
    assert few.epochs > many.epochs == EPOCHS[0]


def test_large_sets_give_as_many_as_an_epoch_has_room_for():
    sizes = np.array([10] * 500 + [1_000_000] * 500)
    cap = most_elements(sizes)
    assert np.minimum(sizes, cap).sum() <= EPOCH_ELEMENTS < np.minimum(sizes, cap + 1).sum()
    assert settle(sizes).max_elements == cap
    assert most_elements(np.full(100_000, 1_000)) == MIN_DRAWN
    assert settle(sizes, draws=False).max_elements is None
    assert settle(sizes, max_elements=None).max_elements is None
    assert settle(sizes, max_elements=7).max_elements == 7
    assert most_elements(np.array([10, 3000])) == MOST_DRAWN  # little in all, and yet no set gives more


def test_an_epoch_of_few_sets_has_some_batches():
    assert settle([2000] * 16).batch_elements == FEW_SETS * 2000
    assert settle([10] * 60).batch_elements == 60 // FEW_BATCHES * 10


def test_members_take_turns_in_how_they_pool():
    assert pools_of("deep_sets++", None, drawn=False) == ("mean", "max")
    assert pools_of("deep_sets++", "sum", drawn=False) == ("sum",)
    assert pools_of("set_transformer++", None, drawn=False) == ("attention",)


def test_no_maximum_is_learned_from_parts_of_sets_unless_asked_for():
    assert pools_of("deep_sets++", None, drawn=True) == ("mean",)
    assert pools_of("deep_sets++", "max", drawn=True) == ("max",)
    assert is_drawn(np.array([3, 9]), 8)
    assert not is_drawn(np.array([3, 9]), 9)
    assert not is_drawn(np.array([3, 9]), None)


def test_a_batch_has_room_for_the_largest_set():
    assert settle([1, 1, 100_000], max_elements=None).batch_elements == 100_000
    assert settle([3, 50], batch_elements=10).batch_elements == 50
    assert settle([20_000] * 10, max_elements=None).batch_elements == BATCH_ELEMENTS


def test_more_sets_make_larger_batches_up_to_a_bound():
    rooms = [settle([10] * num_sets).batch_elements for num_sets in (100, 640, 5000)]
    assert rooms == [10 * BATCH_SETS[0], 10 * 40, 10 * BATCH_SETS[1]]


def test_sets_without_elements_have_room():
    assert settle([0, 0]).batch_elements >= 1


def test_networks_are_trained_as_runs_with_the_default_training_are():
    said = TrainConfig(**DEFAULT_TRAINING, epochs=3, seed=7)
    assert make_spec("normal_var@exact", "deep_sets++", {"training": "default", "epochs": 3, "seed": 7}).train == said
    assert (said.learning_rate, said.weight_decay, said.noise) == (defaults.LEARNING_RATE, defaults.WEIGHT_DECAY, defaults.NOISE)
    assert said.for_steps(1) == replace(said, warmup_share=0, ema_share=None)  # one step needs neither warmup nor average


def test_the_docs_have_these_numbers():
    text = " ".join((Path(__file__).parents[2] / "docs" / "estimators.md").read_text().split())
    deep_sets, transformer = defaults.NETWORKS["deep_sets++"], defaults.NETWORKS["set_transformer++"]
    for said in (
        f"{deep_sets['depth']} for Deep Sets, {transformer['depth']} for Set Transformers",
        f"None: {deep_sets['width']}.",
        f"None: {' and '.join(defaults.POOLS['deep_sets++'])} in turns for Deep Sets",
        f"about {defaults.STEPS} steps, between {EPOCHS[0]} and {EPOCHS[1]}",
        f"no fewer than {defaults.BATCH_SETS[0]} ordinary sets and no more than {defaults.BATCH_SETS[1]}; "
        f"of fewer than {BATCH_SETS[0] * FEW_BATCHES} sets a fifth, at least {FEW_SETS}.",
        f"at most {MOST_DRAWN:,} of a set, fewer where an epoch would have more than {EPOCH_ELEMENTS:,} elements",
        f"Below {defaults.MIN_SETS_TO_VALIDATE} sets",
        f"A set of more than {defaults.LARGE_SET:,} elements",
        f"clipped at {defaults.CLIP:g} standard deviations",
        f"more than {defaults.HEAVY_TAIL:g} times what the quartiles say",
        f"gradients clipped at norm {DEFAULT_TRAINING['clip_norm']:g}",
    ):
        assert said in text, said
