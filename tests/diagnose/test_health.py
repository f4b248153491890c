"""Verdicts: the paper's networks are judged as the paper says, and each verdict names its numbers."""

import pytest
import torch
from sklearn.datasets import load_digits

import orderless as ol
from orderless.diagnose import judge, judge_collapse, judge_over_time, read_layers
from orderless.diagnose.health import ACTIVATION_GROWTH, EXPLODING, GROWTH_OVER_TIME, MERGED, VANISHING
from orderless.tasks import LabelledSets
from orderless.tasks.objectives import Regression

NAMES = ["a", "b", "c", "d"]
EVEN = [1.0, 1.0, 1.0, 1.0]


def normal_var():
    """Sets as in Normal Var, but smaller."""
    means, variances = torch.empty(8, 1, 1).uniform_(-10, 10), torch.empty(8, 1, 1).uniform_(0, 10)
    x = means + variances.sqrt() * torch.randn(8, 50, 1)
    return LabelledSets(ol.SetBatch.from_padded(x), x.var(1, correction=0))


def mnist_var():
    """Sets of ten images, with pixels from 0 to 255 as in MNIST Var."""
    images, digits = load_digits(return_X_y=True)
    rows = torch.randint(len(images), (8, 10))
    x = torch.tensor(images * 255 / 16, dtype=torch.float32)[rows]
    return LabelledSets(ol.SetBatch.from_padded(x), torch.tensor(digits)[rows].float().var(1, correction=0)[:, None])


@pytest.mark.parametrize("sets", [normal_var, mnist_var])
@pytest.mark.parametrize(
    ("name", "depth", "verdict"),
    [
        ("deep_sets", 3, "healthy"),
        ("deep_sets", 25, "vanishing"),
        ("deep_sets", 50, "vanishing"),
        ("deep_sets++", 3, "healthy"),
        ("deep_sets++", 25, "healthy"),
        ("deep_sets++", 50, "healthy"),
        ("set_transformer", 2, "healthy"),
        ("set_transformer", 8, "healthy"),
        ("set_transformer", 16, "healthy"),
        ("set_transformer++", 2, "healthy"),
        ("set_transformer++", 8, "healthy"),
        ("set_transformer++", 16, "healthy"),
    ],
)
def test_the_papers_networks_before_training(name, depth, verdict, sets):
    batch = sets()
    model = ol.create_model(name, batch.sets.x.shape[1], 1, depth=depth)
    found = read_layers(model, batch, Regression().loss)
    health = judge(found.names, found.gradient, found.activation)
    assert health.verdict == verdict, health.evidence
    share = found.gradient[0] / max(found.gradient)
    # no case is near the line: whoever moves it, or the networks, sees that here
    assert share < VANISHING / 1e3 if verdict == "vanishing" else share > VANISHING * 10


def test_a_sum_in_the_place_of_the_skip_explodes():
    model = ol.create_model("deep_sets++", 1, 1, depth=12, residual="sum")
    found = read_layers(model, normal_var(), Regression().loss)
    health = judge(found.names, found.gradient, found.activation)
    assert health.verdict == "exploding"
    assert "activations" in health.evidence


# --------------------------------------------------------------------------------------------------- at one moment


def test_vanishing_is_judged_by_the_first_layer():
    assert judge(NAMES, [VANISHING / 2, 0.1, 1.0, 0.5], EVEN).verdict == "vanishing"
    assert judge(NAMES, [VANISHING * 2, 0.1, 1.0, 0.5], EVEN).verdict == "healthy"
    assert judge(NAMES, [0.5, VANISHING / 2, 1.0, 0.5], EVEN).verdict == "healthy"  # gradients reach the first layer past it


def test_the_evidence_of_vanishing_names_layers_and_numbers():
    said = judge(NAMES, [3e-17, 0.1, 1.0, 0.5], EVEN).evidence
    assert said == "the gradient of the first layer, a, is 3.0e-17 times that of c, the largest (3e-17 against 1)"


def test_the_scale_of_the_loss_does_not_matter():
    for scale in (1e-20, 1e20):
        assert judge(NAMES, [scale * 0.1, scale, scale, scale], EVEN).verdict == "healthy"
        assert judge(NAMES, [scale * 1e-9, scale, scale, scale], EVEN).verdict == "vanishing"


def test_a_dead_network_is_vanishing():
    health = judge(NAMES, [0.0] * 4, EVEN)
    assert (health.verdict, health.evidence) == ("vanishing", "the gradient of every layer, all 4 of them, is exactly 0")


def test_gradients_that_grow_on_their_way_back_explode():
    health = judge(NAMES, [1.0, 4 * EXPLODING, 1.0, 2.0], EVEN)
    assert health.verdict == "exploding"
    assert health.evidence.endswith("4e+04 at b, but at most 2 in the second half of the layers, at d")
    assert judge(NAMES, [1.0, EXPLODING / 2, 1.0, 1.0], EVEN).verdict == "healthy"


def test_one_small_gradient_at_the_output_is_no_explosion():
    assert judge(NAMES, [1.0, 1.0, 1.0, 1e-9], EVEN).verdict == "healthy"  # a network that answers the mean has one


def test_activations_that_grow_explode():
    health = judge(NAMES, EVEN, [3.0, 1.0, 2 * ACTIVATION_GROWTH, 1.0])
    assert health.verdict == "exploding"
    assert health.evidence == "activations grow 2.0e+06-fold from b (1) to c (2e+06)"
    assert judge(NAMES, EVEN, [2 * ACTIVATION_GROWTH, 1.0, 1.0, 1.0]).verdict == "healthy"  # shrinking is no growth
    assert judge(NAMES, EVEN, [0.0, 1.0, 1.0, 1.0]).verdict == "healthy"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "nan", "inf"])
def test_what_is_not_finite_explodes(number):
    assert judge(NAMES, [1.0, number, 1.0, 1.0], EVEN).evidence == f"the gradient of b is {number}"
    health = judge(NAMES, [number] * 4, [1.0, 1.0, number, number])
    assert (health.verdict, health.evidence) == ("exploding", f"the activations of c are {number}")  # where it begins


def test_the_last_gradient_that_is_not_finite_is_the_cause():
    assert judge(NAMES, ["inf", "nan", 1.0, 1.0], EVEN).evidence == "the gradient of b is nan"


def test_layers_without_readings_are_left_out():
    health = judge(NAMES, [None, 1e-9, 1.0, None], [None, 1.0, 1.0, None])
    assert health.verdict == "vanishing"
    assert "the first layer, b," in health.evidence


def test_one_layer_is_healthy():
    assert judge(["a"], [2.0], [1.0]).evidence == "the gradient of the first layer, a, is the largest of all (2)"


def test_nothing_to_judge_is_an_error():
    with pytest.raises(ValueError, match="no layer has a gradient"):
        judge(["a"], [None], [1.0])
    with pytest.raises(ValueError, match="2 names, 1 gradients and 1 activations"):
        judge(["a", "b"], [1.0], [1.0])


def test_a_verdict_reads_as_a_sentence():
    assert str(judge(["a"], [2.0], [1.0])).startswith("healthy: the gradient")


# --------------------------------------------------------------------------------------------------- over time


def moment(epoch, gradient, activation=None):
    return {"epoch": epoch, "step": 10 * epoch, "names": NAMES, "gradient": gradient, "activation": activation or EVEN}


def course(*norms):
    return [moment(n, [norm / 2] * 4) for n, norm in enumerate(norms)]


def test_a_gradient_that_grows_in_training_explodes():
    health = judge_over_time(course(1, 2, 1, 5 * GROWTH_OVER_TIME, 1))
    assert health.verdict == "exploding"
    assert health.evidence == (
        f"after epoch 3, the gradient norm of all layers had grown 5.0e+03-fold, from 1, the median until then, to {5e3:.2g}"
    )
    assert judge_over_time(course(1, 20, 300, 100)).verdict == "healthy"


def test_a_gradient_that_was_small_for_a_moment_only_does_not_explode():
    assert judge_over_time(course(1, 1, 1e-5, 1)).verdict == "healthy"


def test_a_run_that_met_nan_exploded():
    health = judge_over_time([*course(1, 1), moment(2, ["nan"] * 4)])
    assert (health.verdict, health.evidence) == ("exploding", "after epoch 2, the gradient of d is nan")


@pytest.mark.parametrize("loss", [None, "nan", float("inf")])
def test_a_step_that_was_not_finite_is_an_explosion(loss):
    steps = [{"step": 1, "loss": 1.0, "gradient_norm": 1.0}, {"step": 2, "loss": loss, "gradient_norm": None}]
    health = judge_over_time(course(1), steps=steps)
    assert (health.verdict, health.evidence) == ("exploding", "at step 2, the loss or its gradient was not finite")


def test_a_spike_between_moments_is_an_explosion():
    steps = [{"step": n, "loss": 1.0, "gradient_norm": 3e4 if n == 15 else 2.0} for n in range(1, 20)]
    health = judge_over_time(course(1, 1), steps=steps)
    assert health.verdict == "exploding"
    assert health.evidence == "at step 15, the gradient norm was 1.5e+04 times the median of the steps before (3e+04 against 2)"


def test_the_first_steps_are_no_measure():
    steps = [{"step": n, "loss": 1.0, "gradient_norm": 1e-4 if n < 4 else 1.0} for n in range(1, 30)]
    assert judge_over_time(course(1, 1), steps=steps).verdict == "healthy"


def test_otherwise_the_last_moment_decides():
    vanishing, healthy = [1e-9, 1.0, 1.0, 1.0], EVEN
    health = judge_over_time([moment(0, healthy), moment(1, vanishing)])
    assert health.verdict == "vanishing"
    assert health.evidence.startswith("after epoch 1, the gradient of the first layer")
    assert health.evidence.endswith("(before training it was healthy)")
    health = judge_over_time([moment(0, vanishing), moment(1, healthy)])
    assert health.verdict == "healthy"
    assert health.evidence.endswith("(before training it was vanishing)")


def test_one_moment_is_enough():
    assert judge_over_time([moment(0, EVEN)]).evidence.startswith("before training, the gradient of the first layer")


def test_names_may_be_given_apart():
    rows = [{key: value for key, value in row.items() if key != "names"} for row in course(1, 1)]
    assert judge_over_time(rows, NAMES) == judge_over_time(course(1, 1))


def test_a_run_that_nobody_observed_cannot_be_judged():
    with pytest.raises(ValueError, match="no moment of the run was observed"):
        judge_over_time([])


# --------------------------------------------------------------------------------------------------- collapse


def test_a_norm_that_merges_elements_is_named():
    said = judge_collapse({"encoder.0.norm": 0.49, "encoder.1.norm": 0.002})
    assert said is not None
    assert said.startswith("encoder.0.norm makes 49 % of the pairs of elements of a set all but the same")


def test_norms_that_keep_sets_apart_are_not():
    assert judge_collapse({"encoder.0.norm": MERGED / 2}) is None
    assert judge_collapse({}) is None
