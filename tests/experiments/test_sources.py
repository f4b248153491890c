"""What runs get their sets from."""

import pytest
from experiments.plans import _nobodys_files  # noqa: F401
from publishers import write_mnist

from orderless.experiments.sources import SourcesAtHand, preferred_source, request_of, stand_in, task_of, title_of_data
from orderless.experiments.spec import make_spec
from orderless.tasks.registry import get_task, load_task

pytestmark = pytest.mark.usefixtures("_nobodys_files")


def test_data_that_are_not_the_papers_are_told():
    assert stand_in("hematocrit@simulated") == "simulated"
    assert stand_in("mnist_var@digits") == "substituted"
    assert stand_in("hematocrit@flow_rbc") is None
    assert stand_in("normal_var@exact") is None
    assert stand_in("normal_var") is None, "nobody has said yet what it is made from"


def test_the_title_is_the_one_that_the_opened_data_have():
    for task in ("normal_var@exact", "hematocrit@simulated", "mnist_var@digits"):
        assert title_of_data(task) == load_task(task, num_train=2, num_test=2).title
    assert title_of_data("hematocrit") == "Hematocrit"


def test_a_run_knows_its_task():
    assert task_of(make_spec("hematocrit@simulated", "deep_sets++")) is get_task("hematocrit")


def test_a_request_has_the_papers_sizes_unless_others_are_asked_for():
    task = get_task("mnist_var")
    assert (request_of(task, {}).num_train, request_of(task, {}).set_size, request_of(task, {}).asked) == (
        50_000,
        (10, 10),
        (None, None),
    )
    asked = request_of(task, {"num_train": 5, "set_size": 3, "data_seed": 7})
    assert (asked.num_train, asked.num_test, asked.set_size, asked.seed, asked.asked) == (5, 1_000, (3, 3), 7, (5, None))


def test_files_that_are_at_hand_decide_unless_a_source_is_named(tmp_path):
    task = get_task("mnist_var")
    assert SourcesAtHand(None, None).resolve(task, "", {}) == "mnist_var@digits"
    write_mnist(tmp_path / "files" / "mnist")
    at_hand = SourcesAtHand(tmp_path / "files", None)
    assert at_hand.resolve(task, "", {}) == at_hand.resolve(task, "auto", {}) == "mnist_var@mnist"
    assert at_hand.resolve(task, "digits", {}) == "mnist_var@digits"
    assert preferred_source(task, "", {}) == "mnist_var@mnist"
    assert preferred_source(task, "digits", {}) == "mnist_var@digits"
