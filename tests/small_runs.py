"""A task small enough to train on in a test, and runs of it."""

import torch

from orderless.tasks import load_task
from orderless.train import Execution, TrainConfig, train_model

CPU = Execution(device="cpu", checkpoint_seconds=0)


def small_task(cache_dir, name="normal_var", **options):
    sizes = {"num_train": 100, "num_test": 50, "set_size": 10}
    return load_task(name, cache_dir=cache_dir, **(sizes | options))


def small_model(data, name="deep_sets++", seed=0, **options):
    torch.manual_seed(seed)
    return data.create_model(name, **({"depth": 4, "width": 8} | options))


def run(data, model=None, *, folder=None, execution=CPU, observers=None, resume=True, progress=None, **config):
    """Trains in seconds."""
    config = TrainConfig(**({"epochs": 2, "batch_size": 32, "learning_rate": 1e-3} | config))
    model = small_model(data) if model is None else model
    return train_model(
        model,
        data.task,
        data.train,
        data.test,
        config,
        folder=folder,
        execution=execution,
        observers=observers,
        resume=resume,
        progress=progress,
    )


def weights(model):
    """All weights in a row, on the CPU, so that networks on different devices can be compared."""
    return torch.cat([value.cpu().double().flatten() for value in model.state_dict().values()])
