"""An ensemble of networks on packed sets as an ONNX graph.

One network of each kind is translated, with its weights as inputs; others of that kind are the same nodes with weights of their
own, and what does not depend on weights, such as which element is of which set, is there once for each kind. Before them stands
the scaling, behind them the average.

Letters: N sets, T elements in all sets.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from orderless.estimators.covariates import Column, CovariateModel, SetsWithCovariates
from orderless.estimators.defaults import CLIP
from orderless.estimators.onnx_operators import check_program, translations
from orderless.estimators.scaling import ElementScaler
from orderless.io.extras import require
from orderless.sets import SetBatch

_X, _OFFSETS, _BESIDE, _ANSWER = "x", "offsets", "beside", "answer"
_KIND_OF = {"float32": 1, "int64": 7, "float64": 11}  # of ONNX's TensorProto


class Graph:
    """Nodes and constants of a graph that is being written."""

    def __init__(self) -> None:
        self._onnx = require("onnx", "export")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """One more node; gives the name of its output."""
        self.nodes.append(self._onnx.helper.make_node(op, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """One more constant; gives its name."""
        self.constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def finish(self, inputs: Mapping[str, tuple[str, list[Any]]], output: tuple[str, list[Any]], member: Any) -> Any:
        """An `onnx.ModelProto`; inputs and the output, which is float64, by name, type and shape."""
        helper = self._onnx.helper
        infos = [helper.make_tensor_value_info(name, _KIND_OF[kind], shape) for name, (kind, shape) in inputs.items()]
        answer = helper.make_tensor_value_info(output[0], _KIND_OF["float64"], output[1])
        graph = helper.make_graph(self.nodes, "orderless", infos, [answer], self.constants)
        model = helper.make_model(graph, opset_imports=member.opset_import, producer_name="orderless")
        model.ir_version = member.ir_version
        return model


# --------------------------------------------------------------------------------------------------- around the networks


def scale_elements(graph: Graph, scaler: ElementScaler) -> None:
    """`elements` -> `x`, in float32 as the estimator scales elements of float32."""
    graph.constant("mean", scaler.mean_.astype(np.float32))
    graph.constant("scale", scaler.scale_.astype(np.float32))
    graph.add("Sub", ["elements", "mean"], "centred")
    last = graph.add("Div", ["centred", "scale"], "scaled")
    if scaler.bent_.any():
        last = graph.add("Where", [graph.constant("bent", scaler.bent_), _asinh(graph, last), last], "bent or not")
    if scaler.clip is None:
        graph.add("Identity", [last], _X)
    else:
        graph.constant("lowest", np.array(-scaler.clip, np.float32))
        graph.constant("highest", np.array(scaler.clip, np.float32))
        graph.add("Clip", [last, "lowest", "highest"], _X)


def _asinh(graph: Graph, x: str) -> str:
    """Of the absolute value, with the sign put back: a runtime may lose all digits of a large negative number."""
    size = graph.add("Asinh", [graph.add("Abs", [x], "size")], "bent size")
    return graph.add("Mul", [size, graph.add("Sign", [x], "sign")], "bent sizes with signs")


def scale_covariates(graph: Graph, columns: Sequence[Column]) -> None:
    """`covariates` -> `beside`: numbers standardised in float64 and clipped, a column for each word."""
    graph.add("Cast", ["covariates"], "wide", to=_KIND_OF["float64"])
    parts = []
    for number, column in enumerate(columns):
        its = graph.constant(f"column {number}", np.array([number], np.int64))
        values = graph.add("Gather", ["wide", its], f"covariate {number}", axis=1)  # (N, 1)
        if column.categories is None:
            centred = graph.add("Sub", [values, graph.constant(f"mean {number}", np.array(column.mean))], f"centred {number}")
            spread = graph.constant(f"scale {number}", np.array(column.scale))
            scaled = graph.add("Div", [centred, spread], f"scaled {number}")
            ends = [graph.constant(f"{end} {number}", np.array(limit)) for end, limit in (("lowest", -CLIP), ("highest", CLIP))]
            parts.append(graph.add("Clip", [scaled, *ends], f"clipped {number}"))
        else:
            places = graph.constant(f"words {number}", np.arange(len(column.categories), dtype=np.float64))
            same = graph.add("Equal", [values, places], f"same {number}")
            parts.append(graph.add("Cast", [same], f"scaled {number}", to=_KIND_OF["float64"]))
    graph.add("Concat", parts, "joined", axis=1)
    graph.add("Cast", ["joined"], _BESIDE, to=_KIND_OF["float32"])


def average(
    graph: Graph, answers: Sequence[str], output: str, target: tuple[NDArray[np.float64], NDArray[np.float64]] | None
) -> None:
    """The answers of all networks -> probabilities, or predictions with the mean and spread of the target."""
    wide = [graph.add("Cast", [answer], f"{answer} wide", to=_KIND_OF["float64"]) for answer in answers]
    if target is None:
        wide = [graph.add("Softmax", [answer], f"{answer} as probabilities", axis=1) for answer in wide]
    graph.add("Sum", wide, "total")
    graph.add("Div", ["total", graph.constant("members", np.array(float(len(answers))))], output if target is None else "average")
    if target is not None:
        graph.add("Mul", ["average", graph.constant("target scale", target[1])], "spread out")
        graph.add("Add", ["spread out", graph.constant("target mean", target[0])], output)


# ---------------------------------------------------------------------------------------------------------- networks


def add_networks(graph: Graph, models: Sequence[nn.Module], num_features: int, num_covariates: int) -> tuple[list[str], Any]:
    """The networks from `x`, `offsets` and, with covariates, `beside`. Gives the names of their answers, and one translated."""
    of_kind: dict[Any, list[int]] = {}
    for number, model in enumerate(models):
        of_kind.setdefault(_kind(model), []).append(number)
    for kind, numbers in enumerate(of_kind.values()):
        member = _translate(models[numbers[0]], num_features, num_covariates)
        _add_kind(graph, member, {number: _state(models[number]) for number in numbers}, f"kind {kind}")
    return [_renamed(_ANSWER, f"member {number}") for number in range(len(models))], member


def _add_kind(graph: Graph, member: Any, states: Mapping[int, Mapping[str, Tensor]], kind: str) -> None:
    """Networks that differ in weights alone, by number: what does not depend on weights is there once."""
    used = {name for node in member.graph.node for name in node.input}
    common = {"": "", _X: _X, _OFFSETS: _OFFSETS, _BESIDE: _BESIDE}
    for constant in member.graph.initializer:
        common[constant.name] = constant.name = _renamed(constant.name, kind)
        graph.constants.append(constant)
    own = []
    for node in member.graph.node:
        if common.keys() >= set(node.input):
            common.update((name, _renamed(name, kind)) for name in node.output)
            graph.nodes.append(_copy(node, kind, common))
        else:
            own.append(node)
    for number, state in states.items():
        mine = f"member {number}"
        for name, value in state.items():
            if name in used:
                graph.constant(_renamed(name, mine), value.detach().cpu().numpy())
        graph.nodes.extend(_copy(node, mine, common) for node in own)


def _copy(node: Any, owner: str, common: Mapping[str, str]) -> Any:
    copied = type(node)()
    copied.CopyFrom(node)
    copied.name = _renamed(node.name, owner)
    copied.input[:] = [common.get(name) or _renamed(name, owner) if name else name for name in node.input]
    copied.output[:] = [_renamed(name, owner) for name in node.output]
    return copied


def _renamed(name: str, owner: str) -> str:
    return f"{owner}: {name}"


def _kind(model: nn.Module) -> Any:
    """Networks of one kind differ in weights alone."""
    trunk = model.trunk if isinstance(model, CovariateModel) else model
    return getattr(trunk, "config", None), tuple((name, value.shape) for name, value in _state(model).items())


def _state(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


class _Bare(nn.Module):
    """A network without its weights, which come as inputs. Held in a list, so that they are not found in here as well."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.held = [model]
        self.names = list(_state(model))

    def forward(self, x: Tensor, offsets: Tensor, beside: Tensor | None, weights: list[Tensor]) -> Tensor:
        batch: Any = SetBatch._trusted(x, offsets)
        if beside is not None:
            batch = SetsWithCovariates(batch, beside)
        answer: Tensor = functional_call(self.held[0], dict(zip(self.names, weights, strict=True)), (batch,))
        return answer


def _translate(model: nn.Module, num_features: int, num_covariates: int) -> Any:
    """One network as an `onnx.ModelProto`, with free numbers of sets and elements, and without traces of where it was made."""
    onnxscript = require("onnxscript", "export")
    from torch.fx.experimental import _config as symbolic_shapes

    state = {name: value.detach() for name, value in _state(model).items()}
    covers = isinstance(model, CovariateModel)
    beside = torch.zeros(2, num_covariates) if covers else None
    example = (torch.zeros(7, num_features), torch.tensor([0, 3, 7]), beside, list(state.values()))
    free = {0: torch.export.Dim.DYNAMIC}
    sizes = (free, free, free if covers else None, [None] * len(state))
    with torch.no_grad(), quiet():
        with symbolic_shapes.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
            program = torch.export.export(_Bare(model).eval(), example, dynamic_shapes=sizes)
        check_program(program)
        made = torch.onnx.export(
            program,
            example,
            dynamo=True,
            input_names=[_X, _OFFSETS, *([_BESIDE] if covers else []), *state],
            output_names=[_ANSWER],
            custom_translation_table=translations(onnxscript.opset18),
            optimize=False,  # takes longer than all the rest, and a runtime does it by itself
            verbose=False,
        )
        assert made is not None
        onnxscript.optimizer.fold_constants(made.model)
    proto = made.model_proto
    for part in (*proto.graph.node, *proto.graph.initializer):
        part.ClearField("metadata_props")  # stack traces, with the paths of this machine
        part.ClearField("doc_string")
    simplify(proto.graph)
    if any(node.op_type == "ScatterND" for node in proto.graph.node):
        raise NotImplementedError("ScatterND adds to one row from several threads at once in onnxruntime: it must not be used.")
    return proto


def simplify(graph: Any) -> None:
    """Keeps one of nodes that compute the same, and none whose result nobody takes: tracing writes every step down each time."""
    known: dict[Any, Sequence[str]] = {}
    same: dict[str, str] = {}
    kept = []
    for node in graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
        attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
        first = known.setdefault((node.domain, node.op_type, *node.input, *attributes), node.output)
        if first is node.output or set(node.output) & {output.name for output in graph.output}:
            kept.append(node)
        else:
            same.update(zip(node.output, first, strict=True))
    taken = {output.name for output in graph.output}
    needed = []
    for node in reversed(kept):
        if taken.intersection(node.output):
            needed.append(node)
            taken.update(node.input)
    del graph.node[:]
    graph.node.extend(reversed(needed))
    constants = [constant for constant in graph.initializer if constant.name in taken]
    del graph.initializer[:]
    graph.initializer.extend(constants)


@contextmanager
def quiet() -> Iterator[None]:
    """torch's exporters and their helpers tell the user of matters that are theirs."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
