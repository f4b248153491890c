"""The element chooser: it finds what stands out, chance decides between equals, and an empty set is refused."""

import numpy as np
import pytest
from evaluate.drawn_tasks import draw_outliers
from sklearn.model_selection import cross_val_score

from orderless.evaluate import ElementChooser, make_baseline
from orderless.evaluate.chooser import log_odds


@pytest.mark.parametrize("name", ["moments", "moments_boosted", "mean_embedding", "constant"])
def test_an_element_chooser_goes_into_cross_validation(name):
    data = draw_outliers(120, 0, distance=10.0)
    accuracy = cross_val_score(make_baseline(name, "element_choice"), data.all, data.target.numpy(), cv=3)
    assert (accuracy > 0.8).all() if name != "constant" else (accuracy < 0.5).all()


def test_level_elements_are_chosen_by_chance_and_not_by_place():
    sets = [np.zeros((4, 1))] * 400
    guesses = make_baseline("constant", "element_choice").fit(sets, np.zeros(400, int)).predict(sets)
    # 400 guesses among 4 places: 100 each, standard deviation 8.7
    assert (abs(np.bincount(guesses, minlength=4) - 100) < 5 * 8.7).all()


def test_odds_that_differ_by_rounding_are_level():
    class Classifier:
        def decision_function(self, rows):
            return rows[:, 0]

    odds = log_odds(Classifier(), np.array([[0.1 + 0.2], [0.3], [0.3 + 1e-8]]))
    assert odds[0] == odds[1] < odds[2]


def test_an_empty_set_has_no_element_to_choose():
    chooser = make_baseline("moments", "element_choice")
    assert isinstance(chooser, ElementChooser)
    data = draw_outliers(20, 0)
    with pytest.raises(ValueError, match="1 empty set"):
        chooser.fit([*data.all, np.zeros((0, 3))], [*data.target.tolist(), 0])
    with pytest.raises(ValueError, match="1 empty set"):
        chooser.fit(data.all, data.target.numpy()).predict([data.all[0], np.zeros((0, 3))])
    with pytest.raises(ValueError, match="position within each"):
        chooser.fit(data.all, data.sizes)
