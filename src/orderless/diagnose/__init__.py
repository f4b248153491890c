"""Why a network trains or does not: gradients and activations of every layer, and what norms leave of sets."""

from orderless.diagnose.collapse import read_collapse
from orderless.diagnose.health import Health, judge, judge_collapse, judge_over_time
from orderless.diagnose.layers import LayerObserver, Layers, read_layers

__all__ = ["Health", "LayerObserver", "Layers", "judge", "judge_collapse", "judge_over_time", "read_collapse", "read_layers"]
