"""docs/cohorts.md says what the committed evaluations say."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def with_interval(metric):
    interval = metric["over_groups"] or metric["over_sets"]
    return f"{metric['value']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


@pytest.mark.parametrize(("cohort", "best_baseline"), [("bcr_xl", 1.0), ("nk_cmv", 0.8)])
def test_every_row_is_there(cohort, best_baseline):
    page = (DOCS / "cohorts.md").read_text()
    said = json.loads((DOCS / "results" / "cohorts" / f"{cohort}.json").read_text())
    for model in said["models"]:
        cells = [with_interval(model["metrics"][name]) for name in ("accuracy", "roc_auc", "log_loss")]
        assert f"| {model['title']} | {' | '.join(cells)} |" in page
    baselines = [m["metrics"]["accuracy"]["value"] for m in said["models"] if m["is_baseline"]]
    assert max(baselines) == pytest.approx(best_baseline)
    assert f"pictures/{cohort}_scores.png" in page
    assert (DOCS / "pictures" / f"{cohort}_scores.png").stat().st_size > 10_000
