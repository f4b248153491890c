"""Anemia: predict from 1,000 red cells whether a patient was diagnosed with anemia. The data were never published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from orderless.io.store_writer import StoreWriter
from orderless.tasks.base import Task
from orderless.tasks.blood import UNITS, build_published, build_simulated
from orderless.tasks.source import Request, Source
from orderless.tasks.sources import flow_rbc

CLASS_NAMES = ("not anemic", "anemic")


Build = Callable[[StoreWriter, Request], Mapping[str, Any]]


def _named(build: Build) -> Build:
    def build_with_names(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
        return {**build(writer, request), "class_names": list(CLASS_NAMES)}

    return build_with_names


_build_published = partial(build_published, published=(11_136, 2_432), num_classes=len(CLASS_NAMES))

ANEMIA = Task(
    name="anemia",
    title="Anemia",
    about="1,000 red cells of a patient, volume and hemoglobin of each; predict whether anemia was diagnosed.",
    objective="classification",
    metric="accuracy",
    sources=(
        Source(
            "flow_rbc",
            "published",
            "Anemia.h5 of the authors",
            (2,),
            _named(_build_published),
            files=flow_rbc.ANEMIA,
            finite=True,
        ),
        Source("simulated", "simulated", "invented patients", (2,), _named(build_simulated("anemia"))),
    ),
    num_train=11_136,
    num_test=2_432,
    set_size=(1000, 1000),
    drawing="scatter",
    model_options={"pool": "sum"},
    units=UNITS,
)

TASKS = (ANEMIA,)
