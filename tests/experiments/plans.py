"""Plans of recipes, and result lines that fit them, without training anything."""

import pytest
from experiments.lines import make_line

from orderless.experiments.grid import expand
from orderless.experiments.recipe import load_recipe


@pytest.fixture
def _nobodys_files(monkeypatch, tmp_path):
    """Tasks come from their stand-ins, whatever is on this machine."""
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))


def plan_of(name, **options):
    """The plan of a recipe that comes with the package."""
    return expand(load_recipe(name), **options)


def result(spec, value=1.0, released=None, **changes):
    """The line of a run, with this test metric."""
    line = make_line(spec.task, spec.model, epochs=1)
    line |= {"key": spec.key, "spec": spec.to_json(), "metrics": dict.fromkeys(line["metrics"], value)}
    line["released"] = None if released is None else dict.fromkeys(line["metrics"], released)
    return {**line, **changes}
