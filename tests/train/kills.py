"""Trains while being killed, again and again, at random moments: `python kills.py FOLDER SEED`; prints how often it was killed.

Each attempt is a fork of this process that is killed with SIGKILL, or gets to its end.
"""

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from small_runs import run, small_model, small_task

SETTINGS = [
    {"epochs": 3, "batch_size": 8},
    {"epochs": 3, "batch_size": 8, "ema_decay": 0.9, "clip_norm": 1.0, "schedule": "cosine"},
    {"epochs": 3, "batch_size": 4, "accumulate": 2, "protocol": "released"},
    {"epochs": 3, "batch_elements": 100},
]


NEEDED = 24


def train(folder: Path, number: int) -> None:
    """One attempt: continues what is there, to the end."""
    data = small_task(folder.parent / "cache", num_test=20)
    model = small_model(data, norm="feature" if number % 2 else "set")
    done = run(data, model, folder=folder, **SETTINGS[number])
    torch.save(done.model.state_dict(), folder / "final.pt")


def attempt(folder: Path, number: int, seconds: float) -> bool:
    """Whether it got to its end before it was killed."""
    child = os.fork()
    if child == 0:
        try:
            train(folder, number)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            if status:
                sys.exit(f"an attempt failed with status {status}")
            return True
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> None:
    torch.set_num_threads(1)
    root, rng = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    kills, rounds = 0, 0
    train(root / "warm", 0)  # libraries load what they need before the forks, or no attempt would live long enough
    while kills < NEEDED:
        for number in range(len(SETTINGS)):
            start = time.monotonic()
            assert attempt(root / f"whole-{number}-{rounds}", number, 1000)
            seconds = time.monotonic() - start
            while not attempt(root / f"killed-{number}-{rounds}", number, rng.uniform(0, seconds / 3)):
                kills += 1
                assert time.monotonic() - start < 20 + 40 * seconds, "it never gets to its end"
        rounds += 1
    print(kills)


if __name__ == "__main__":
    main()
