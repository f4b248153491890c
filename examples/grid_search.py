"""How deep, and which pool? scikit-learn's GridSearchCV on sets, with the sets of one patient kept together.

python examples/grid_search.py cells.parquet --set-id donor --labels donors.csv --target cmv
python examples/grid_search.py          # on small simulated sets
"""

import argparse
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold

import orderless as ol
from orderless.io import join_labels, open_samples

GRID = {"depth": [2, 6], "pool": ["mean", "max"]}


def simulate() -> tuple[list[Any], Any, Any]:
    """Forty samples of twenty patients; in the ill, a few elements lie far out."""
    rng = np.random.default_rng(0)
    patient = np.arange(40) // 2
    ill = patient % 2
    sets = [rng.normal(size=(rng.integers(20, 60), 2)) for _ in range(40)]
    for elements, disease in zip(sets, ill, strict=True):
        elements[:3] += 4 * disease
    return sets, ill, patient


def main(sets: list[Any], y: Any, groups: Any, **options: Any) -> None:
    """Searches, and tells what it found. The best score was picked by these sets: for an honest one, nest the search."""
    model = ol.SetClassifier(random_state=0, **options)
    folds = StratifiedGroupKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(model, GRID, cv=folds, scoring="neg_log_loss").fit(sets, y, groups=groups)
    for parameters, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        print(f"log loss {-score:.3f}  {parameters}")
    print(f"best: {search.best_params_}; it was fitted to all sets: {search.predict(sets[:3])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    for option in ("--set-id", "--labels", "--target", "--group"):
        parser.add_argument(option)
    given = parser.parse_args()
    if given.data:
        samples = join_labels(open_samples(given.data, set_id=given.set_id), given.labels)
        groups = samples.columns[given.group] if given.group else np.arange(len(samples))
        main([samples[n] for n in range(len(samples))], samples.columns[given.target], groups, ensemble_size=1)
    else:
        main(*simulate(), epochs=3, ensemble_size=1, width=8)
