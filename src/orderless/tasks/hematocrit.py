"""Hematocrit (Flow-RBC): predict the share of red cells in a patient's blood from 1,000 of them."""

from __future__ import annotations

from functools import partial

from orderless.tasks.base import Task
from orderless.tasks.blood import UNITS, build_published, build_simulated
from orderless.tasks.source import Source
from orderless.tasks.sources import flow_rbc

HEMATOCRIT = Task(
    name="hematocrit",
    title="Hematocrit",
    about="1,000 red cells of a patient, volume and hemoglobin of each; predict the patient's hematocrit in percent.",
    objective="regression",
    metric="mse",
    sources=(
        Source(
            "flow_rbc",
            "published",
            "Flow-RBC",
            (2,),
            partial(build_published, published=(98_240, 23_104)),
            files=flow_rbc.HEMATOCRIT,
            finite=True,
        ),
        Source("simulated", "simulated", "invented patients instead of Flow-RBC", (2,), build_simulated("hematocrit")),
    ),
    num_train=98_240,
    num_test=23_104,
    set_size=(1000, 1000),
    drawing="scatter",
    model_options={"pool": "sum"},
    epochs=30,
    units=UNITS,
)

TASKS = (HEMATOCRIT,)
