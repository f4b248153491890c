"""Tasks as such: where data are looked for, what is prepared, what reports say, how they are found (`base.py`, `registry.py`)."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from tasks.small import load

from orderless import tasks
from orderless.io.errors import DataError, MissingDataError
from orderless.io.store_files import sha256_of
from orderless.models import list_models
from orderless.tasks.registry import TASKS


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.delenv("ORDERLESS_CACHE", raising=False)


def test_the_papers_tasks_and_variants_are_there():
    assert tasks.list_tasks() == [
        "hematocrit", "anemia", "point_cloud", "point_cloud_paper", "point_cloud_smooth", "mnist_var", "mnist_var_released",
        "mnist_var_6_10", "mnist_mean", "mnist_median", "mnist_count", "normal_var", "normal_var_100", "normal_var_ood",
        "normal_var_ood_released", "set_anomaly", "weighted_average_normal", "weighted_average_categorical",
    ]  # fmt: skip


def test_sizes_are_the_papers():
    sizes = {name: (task.num_train, task.num_test, task.set_size) for name, task in TASKS.items()}
    assert sizes["hematocrit"] == (98_240, 23_104, (1000, 1000))
    assert sizes["anemia"] == (11_136, 2_432, (1000, 1000))
    assert sizes["point_cloud"] == (9_840, 2_468, (1000, 1000))
    assert sizes["mnist_var"] == (50_000, 1_000, (10, 10))
    assert sizes["normal_var"] == (10_000, 1_000, (1000, 1000))
    assert sizes["set_anomaly"] == (18_000, 18_000, (10, 10))
    assert sizes["mnist_var_6_10"][2] == (6, 10)


def test_settings_are_the_papers():
    assert {name for name, task in TASKS.items() if task.epochs == 30} == {
        "hematocrit",
        "weighted_average_normal",
        "weighted_average_categorical",
    }
    assert {task.model_options.get("pool") for name, task in TASKS.items() if name.startswith("point_cloud")} == {"max"}
    smooth = TASKS["point_cloud_smooth"]  # by SimpleView's protocol
    assert (smooth.learning_rate, smooth.epochs, smooth.batch_size, smooth.label_smoothing) == (1e-3, 160, 32, 0.2)
    assert {task.learning_rate for task in TASKS.values() if task is not smooth} == {1e-4}
    assert not any(
        task.train_options or task.augmentation or task.label_smoothing for task in TASKS.values() if task is not smooth
    )
    assert TASKS["set_anomaly"].batch_size == 32


@pytest.mark.parametrize("name", TASKS)
def test_every_task_runs_with_no_files_and_no_network(name, tmp_path):
    data = load(name, tmp_path)
    assert (len(data.train), len(data.test)) == (12, 6)
    batch = next(iter(data.train.loader(4, shuffle=True)))
    assert batch.sets.dtype == torch.float32
    model = data.create_model("deep_sets++", depth=2, width=16)
    loss = data.task.loss(model(batch.sets), batch.target)
    loss.backward()
    assert math.isfinite(loss.item())
    per_set = data.task.per_set(model(batch.sets), batch.target)
    assert data.task.metric in per_set
    assert all(value.shape == (4,) for value in per_set.values())


@pytest.mark.parametrize("name", TASKS)
def test_what_is_not_the_published_data_says_so_everywhere(name, tmp_path):
    data = load(name, tmp_path)
    if data.source.kind == "exact":
        assert data.name == f"{name}@exact"
        return
    assert data.source.kind in ("simulated", "substituted")
    assert data.name.partition("@")[2] in ("simulated", "shapes", "digits")
    assert data.source.kind in data.title
    assert data.source.kind in repr(data)
    assert data.store.manifest["kind"] == data.source.kind
    assert data.store.manifest["name"] == data.name


@pytest.mark.parametrize("name", TASKS)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(name, tmp_path):
    sums = {}
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        data = load(name, tmp_path / folder, seed=seed)
        sums[folder] = [sha256_of(data.store.folder / f"{split}.arrow") for split in ("train", "test")]
    assert sums["a"] == sums["b"]
    assert not set(sums["a"]) & set(sums["c"])


@pytest.mark.parametrize("name", TASKS)
def test_train_and_test_have_no_set_in_common(name, tmp_path):
    data = load(name, tmp_path)
    train = {x.numpy().tobytes() for x, _ in data.train}
    assert not train & {x.numpy().tobytes() for x, _ in data.test}


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.drawing == "images"])
def test_train_and_test_have_no_image_in_common(name, tmp_path):
    data = load(name, tmp_path, num_train=300, num_test=300)
    columns = data.store.pool.columns
    sources = [
        {(columns["file"][row], columns["row"][row]) for row in dataset.source_rows()} for dataset in (data.train, data.test)
    ]
    assert len(sources[0]) > 100
    assert len(sources[1]) > 100
    assert not sources[0] & sources[1]
    pixels = [{data.store.pool.take(np.array([row])).tobytes() for row in d.source_rows()} for d in (data.train, data.test)]
    assert not pixels[0] & pixels[1]


@pytest.mark.parametrize("name", TASKS)
def test_train_and_test_have_no_number_in_common(name, tmp_path):
    """A set's number is its patient, its object, or its draw."""
    data = load(name, tmp_path, num_train=300, num_test=300)
    ids = np.concatenate([data.train.columns["id"], data.test.columns["id"]])
    assert len(set(ids.tolist())) == 600


def moment(x):
    """A mean that tells one place from another."""
    return (x.double().flatten() * torch.linspace(0, 1, x.numel(), dtype=torch.float64)).mean().item()


# the source's version, the first training target, and a moment of its set. Where they change, raise the version, so that what was
# prepared before is prepared again
GOLDEN = {
    "hematocrit": (1, 38.504948, -0.2144012),
    "anemia": (1, 0, 0.10536643),
    "point_cloud": (1, 0, -0.0071148137),
    "point_cloud_paper": (1, 0, 0.0011257968),
    "point_cloud_smooth": (1, 0, -0.0031475087),
    "mnist_var": (1, 9.96, 2.5613263),
    "mnist_var_released": (1, 9.8900003, 2.4076242),
    "mnist_var_6_10": (1, 7.4499998, 2.5406323),
    "mnist_mean": (1, 5.1999998, 2.5613263),
    "mnist_median": (1, 5.5, 2.5613263),
    "mnist_count": (1, 6, 2.5613263),
    "normal_var": (1, 7.0320368, 0.50792356),
    "normal_var_100": (1, 4.7717328, 0.42707951),
    "normal_var_ood": (1, 4.7717328, 0.42707951),
    "normal_var_ood_released": (1, 4.2040801, 0.42707951),
    "set_anomaly": (1, 6, 40.607042),
    "weighted_average_normal": (1, 4.9961452, 0.48006326),
    "weighted_average_categorical": (1, 52.900002, 0.0050170085),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_generator_that_changes_gets_a_new_version(name, tmp_path):
    data = load(name, tmp_path)
    x, target = data.train[0]
    version, first_target, first_moment = GOLDEN[name]
    assert data.source.version == version
    # rounding may differ between machines, draws may not
    assert target.double().mean().item() == pytest.approx(first_target, rel=1e-5, abs=1e-5)
    assert moment(x) == pytest.approx(first_moment, rel=1e-5, abs=1e-5)


def test_opening_again_does_not_prepare_again(tmp_path):
    first = load("normal_var", tmp_path)
    written = (first.store.folder / "train.arrow").stat().st_mtime_ns
    again = load("normal_var", tmp_path)
    assert (again.store.folder / "train.arrow").stat().st_mtime_ns == written
    load("normal_var", tmp_path, rebuild=True)
    assert (first.store.folder / "train.arrow").stat().st_mtime_ns > written


def write_blood(path, num_train=20, num_test=10, cells=20):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for split, count in (("train", num_train), ("test", num_test)):
            file[f"{split}_data"] = rng.normal(90, 10, (count, cells, 2))
            file[f"{split}_labels"] = rng.normal(40, 5, count)


def test_all_rows_and_as_many_rows_are_different_requests(tmp_path):
    write_blood(tmp_path / "hematocrit.h5")
    options = {"data_dir": tmp_path, "cache_dir": tmp_path / "cache", "set_size": 20}
    assert len(tasks.load_task("hematocrit", **options).train) == 20
    with pytest.raises(DataError, match="expected 98240 train sets, found 20"):
        tasks.load_task("hematocrit", **options, num_train=98_240)
    assert len(tasks.load_task("hematocrit", **options, num_train=20).train) == 20


def test_a_file_with_other_numbers_than_published_says_so(tmp_path):
    write_blood(tmp_path / "hematocrit.h5")
    data = tasks.load_task("hematocrit", data_dir=tmp_path, cache_dir=tmp_path, set_size=20)
    assert data.title == "Hematocrit (Flow-RBC, but 20 + 10 patients instead of 98,240 + 23,104)"


def test_auto_prefers_what_was_prepared_to_a_stand_in(tmp_path):
    write_blood(tmp_path / "raw" / "hematocrit.h5")
    options = {"cache_dir": tmp_path, "set_size": 20}
    assert tasks.load_task("hematocrit", **options).source.name == "flow_rbc"
    (tmp_path / "raw" / "hematocrit.h5").unlink()
    assert tasks.load_task("hematocrit", **options).source.name == "flow_rbc"


def test_auto_never_asks_the_network(tmp_path, monkeypatch):
    write_blood(tmp_path / "raw" / "hematocrit.h5")
    options = {"cache_dir": tmp_path, "set_size": 20}
    folder = tasks.load_task("hematocrit", **options).store.folder
    (tmp_path / "raw" / "hematocrit.h5").unlink()
    (folder / "train.arrow").write_bytes(b"damaged")
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: pytest.fail("asked the network"))
    assert tasks.load_task("hematocrit", **options, num_train=3, num_test=2).source.name == "simulated"
    data = TASKS["hematocrit"].load(**options, source="simulated", num_train=3, num_test=2)
    assert data.source.kind == "simulated"


def test_what_an_older_version_made_is_prepared_again(tmp_path):
    load("normal_var", tmp_path)
    task = TASKS["normal_var"]
    newer = replace(task, sources=(replace(task.sources[0], version=task.sources[0].version + 1),))
    with pytest.warns(UserWarning, match="other settings. It is prepared again"):
        newer.load(cache_dir=tmp_path, num_train=12, num_test=6, set_size=20)
    assert len(list((tmp_path / "tasks").glob("normal_var*"))) == 1


def test_set_networks_can_standardise_everywhere_but_on_images():
    for task in TASKS.values():
        assert {model for model in list_models() if task.why_not_standardize(model) is None} == (
            set() if task.name == "set_anomaly" else set(list_models()) - {"pointnet++", "simpleview"}
        )


def test_different_requests_live_side_by_side(tmp_path):
    folders = {
        load("normal_var", tmp_path, **options).store.folder
        for options in ({}, {"seed": 1}, {"num_train": 13}, {"num_test": 7}, {"set_size": 21})
    }
    assert len(folders) == 5


def test_a_named_source_whose_files_are_missing_says_where_to_put_them(tmp_path):
    with pytest.raises(MissingDataError, match=r"hematocrit\.h5.*by hand.*ORDERLESS_DATA"):
        load("hematocrit@flow_rbc", tmp_path)
    assert [path.suffix for path in tmp_path.glob("tasks/*")] in ([], [".lock"])


def test_an_unknown_task_or_source_is_an_error_that_helps():
    with pytest.raises(ValueError, match="Did you mean 'normal_var'"):
        tasks.get_task("normal-var")
    with pytest.raises(ValueError, match="comes from mnist, digits, or auto; got 'celeba'"):
        tasks.load_task("mnist_var@celeba")
    with pytest.raises(ValueError, match="names no source"):
        tasks.load_task("mnist_var@")
    with pytest.raises(ValueError, match="given twice"):
        tasks.load_task("mnist_var@mnist", source="digits")


@pytest.mark.parametrize("option", ["num_train", "num_test", "set_size"])
def test_sizes_below_one_and_beyond_measure_are_refused(option, tmp_path):
    with pytest.raises(ValueError, match=f"{option} must be 1 or more, got 0"):
        load("normal_var", tmp_path, **{option: 0})
    with pytest.raises(ValueError, match=f"{option} must be at most 1,000,000,000, got {10**22}"):
        load("normal_var", tmp_path, **{option: 10**22})


def test_numbers_that_are_not_whole_are_refused(tmp_path):
    with pytest.raises(ValueError, match="seed must be 0 or more"):
        load("normal_var", tmp_path, seed=-1)
    with pytest.raises(ValueError, match=r"num_train must be a whole number, got 2\.5"):
        load("normal_var", tmp_path, num_train=2.5)
    assert load("normal_var", tmp_path, seed=np.int64(3), num_train=np.int32(4)).store.manifest["key"]["seed"] == 3


def test_a_data_folder_that_is_not_there_is_an_error(monkeypatch, tmp_path):
    with pytest.raises(DataError, match="--data-dir"):
        load("normal_var", tmp_path, data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("ORDERLESS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="ORDERLESS_DATA"):
        load("mnist_var", tmp_path)


def test_a_prepared_task_loads_without_reading_its_elements(tmp_path):
    """In a fresh process, opening must not touch the elements: their file may be far larger than memory."""
    load("normal_var", tmp_path, num_train=2000, set_size=1000)
    code = (
        "import sys, resource; from orderless import tasks; import pyarrow.ipc; "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "data = tasks.load_task('normal_var', cache_dir=sys.argv[1], num_train=2000, num_test=6, set_size=1000); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    run = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True, env=os.environ)
    assert int(run.stdout) < 4 * 1024  # KiB; the elements have 8 MB
