"""Questions that a traced program asks once: `_tracing.py`, and those of the backend."""

import importlib.util

import pytest
import torch

from orderless.ops import backend
from orderless.ops._tracing import constant_when_traced


@pytest.mark.traced
def test_a_question_is_asked_while_tracing_and_its_answer_built_in():
    asked = []

    @constant_when_traced
    def question():
        asked.append(importlib.util.find_spec("torch"))  # which torch's compiler would not follow
        return 3

    traced = torch.compile(lambda x: x + question(), backend="eager", fullgraph=True)
    assert [traced(torch.zeros(1)).item() for _ in range(2)] == [3, 3]
    assert len(asked) == 1


@pytest.mark.traced
def test_a_traced_program_may_ask_what_a_gpu_can(monkeypatch):
    monkeypatch.setattr(backend, "_asked_capability", lambda index: (9, index))
    backend._found.cache_clear()

    def program(x):
        return x + (2 if not backend._has_triton() or backend._capability(0) < (9, 0) else 1)

    traced = torch.compile(program, backend="eager", fullgraph=True)
    assert traced(torch.zeros(1)).item() == program(torch.zeros(1)).item()
