"""Hooks of modules. Layers that are fused or left out would not call them."""

from torch import nn
from torch.nn.modules.module import _has_any_global_hook


def has_hooks(module: nn.Module) -> bool:
    """Whether the module or one inside it has a hook, or there is one for all modules."""
    return has_global_hooks() or any(has_own_hooks(m) for m in module.modules())


def has_own_hooks(module: nn.Module) -> bool:
    """Whether this very module has a hook."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks)


def has_global_hooks() -> bool:
    """Whether there is a hook for all modules."""
    return bool(_has_any_global_hook())
