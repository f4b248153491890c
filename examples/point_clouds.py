"""Which object do these points lie on? ModelNet40, or simulated spheres, cubes and disks.

python examples/point_clouds.py FOLDER   # of ModelNet40 as HDF5: ply_data_train*.h5, ply_data_test*.h5, shape_names.txt
python examples/point_clouds.py          # on small simulated clouds
"""

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

import orderless as ol

Clouds = tuple[NDArray[np.float32], NDArray[np.str_]]


def simulate(count: int, seed: int) -> Clouds:
    """Sixty-four points each on a sphere, in a cube or on a flat disk."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 64, 3)).astype(np.float32)
    kind = np.array(["sphere", "cube", "disk"])[np.arange(count) % 3]
    x[kind == "sphere"] /= np.linalg.norm(x[kind == "sphere"], axis=2, keepdims=True)
    x[kind == "cube"] = rng.uniform(-1, 1, size=x[kind == "cube"].shape)
    x[kind == "disk"] *= [0.6, 0.6, 0.0]
    return x, kind


def read(folder: Path, part: str, points: int) -> Clouds:
    """All clouds of a part; the first points of each, which are in no order."""
    names = np.array((folder / "shape_names.txt").read_text().split())
    files = [h5py.File(path) for path in sorted(folder.glob(f"ply_data_{part}*.h5"))]
    clouds = np.concatenate([file["data"][:, :points] for file in files])
    return clouds, names[np.concatenate([file["label"][:] for file in files]).ravel()]


def main(train: Clouds, test: Clouds, **options: Any) -> None:
    """Fits a Set Transformer++ to the one and tests it on the other."""
    model = ol.SetClassifier("set_transformer++", random_state=0, verbose=1, **options)
    model.fit(*train)
    print(f"{len(model.classes_)} classes, {len(train[0])} clouds to learn from, {len(test[0])} to test on")
    print(f"accuracy {model.score(*test):.3f}, after {model.n_iter_} epochs")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(*(read(Path(sys.argv[1]), part, 256) for part in ("train", "test")), ensemble_size=1, epochs=20)
    else:
        main(simulate(90, seed=0), simulate(30, seed=1), ensemble_size=1, epochs=5, width=16, num_inducing=4)
