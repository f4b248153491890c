import pytest
import torch
from estimators.ragged import classifier, draw, regressor

from orderless.estimators import defaults
from orderless.estimators.threads import one_thread

X, Y, CENTRE = draw(30)


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_threads_are_given_back_also_after_an_error():
    with pytest.raises(RuntimeError, match="in the middle"), one_thread():
        fail_in_one_thread()
    assert torch.get_num_threads() == 2
    with one_thread(when=False):
        assert torch.get_num_threads() == 2


def fail_in_one_thread():
    assert torch.get_num_threads() == 1
    raise RuntimeError("in the middle")


def threads_of(work):
    seen = set()
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: seen.add(torch.get_num_threads()))
    try:
        work()
    finally:
        hook.remove()
    return seen


def test_small_work_takes_one_thread_and_large_work_those_there_are(monkeypatch):
    model = regressor(epochs=1).fit(X, CENTRE)
    assert threads_of(lambda: regressor(epochs=1).fit(X, CENTRE)) == {1}
    assert threads_of(lambda: model.predict(X)) == {1}
    monkeypatch.setattr(defaults, "SMALL_BATCH", 100)
    monkeypatch.setattr(defaults, "SMALL_PREDICTION", 100)
    assert threads_of(lambda: classifier(epochs=1).fit(X, Y, covariates=CENTRE)) == {2}
    assert threads_of(lambda: model.predict(X)) == {2}
    assert torch.get_num_threads() == 2
