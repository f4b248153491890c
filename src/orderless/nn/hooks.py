"""Who listens to a module: what is fused or left out would not be heard."""

from torch import nn
from torch.nn.modules.module import _has_any_global_hook


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody listens at the module or at one inside it, or at all modules."""
    return has_global_hooks() or any(has_own_hooks(m) for m in module.modules())


def has_own_hooks(module: nn.Module) -> bool:
    """Whether somebody listens at this very module."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks)


def has_global_hooks() -> bool:
    """Whether somebody listens at all modules there are."""
    return bool(_has_any_global_hook())
