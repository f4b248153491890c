"""Why a network trains or does not: gradients and activations of every layer."""
