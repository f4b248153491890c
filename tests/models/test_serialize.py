import json
import os
import pickle
import struct

import pytest
import torch
from batches import make_batch
from legal import all_legal, build, few_centroids_and_pixels, pairwise, title
from safetensors import safe_open
from safetensors.torch import save_file

import orderless as ol
from orderless.models import serialize

COVER = pairwise(all_legal())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def model():
    return ol.create_model("deep_sets++", 2, 1, depth=2, width=8)


@pytest.mark.parametrize("row", COVER, ids=map(title, COVER))
def test_a_model_comes_back_as_it_was(row, path):
    model = build(row).double()
    model(make_batch([5, 3], model.in_features))  # running statistics
    ol.save_model(model.eval(), path)
    with few_centroids_and_pixels():
        loaded = ol.load_model(path)
    assert loaded.config == model.config
    assert not loaded.training
    batch = make_batch([4, 0, 7], model.in_features)
    first, second = model(batch), loaded(batch)
    assert torch.equal(getattr(first, "x", first), getattr(second, "x", second))


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_kept(model, path, training):
    ol.save_model(model.train(training), path)
    assert ol.load_model(path).training is training


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_dtype_is_kept(model, path, dtype):
    ol.save_model(model.to(dtype), path)
    assert {p.dtype for p in ol.load_model(path).parameters()} == {dtype}


def test_mixed_dtypes_are_kept(model, path):
    model.decoder.to(torch.bfloat16)
    ol.save_model(model, path)
    loaded = ol.load_model(path)
    assert loaded.decoder[0].weight.dtype == torch.bfloat16
    assert loaded.encoder[0].weight.dtype == torch.float32


def test_a_loaded_model_can_be_trained(model, path):
    ol.save_model(model, path)
    loaded = ol.load_model(path)
    loaded(torch.randn(2, 3, 2)).sum().backward()
    assert all(p.requires_grad and p.grad is not None for p in loaded.parameters())


def test_weights_that_share_memory_are_saved(path):
    featurizer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    featurizer[1].weight = featurizer[0].weight
    ol.save_model(ol.create_model("deep_sets", 2, 1, width=8, featurizer=featurizer), path)
    again = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    assert torch.equal(ol.load_model(path, featurizer=again).featurizer[1].weight, featurizer[0].weight)


def test_a_subclass_of_the_conv_featurizer_is_ones_own(path):
    class Mine(ol.nn.ConvFeaturizer):
        pass

    ol.save_model(ol.create_model("deep_sets", 256, 1, width=8, featurizer=Mine()), path)
    with pytest.raises(ValueError, match="a featurizer of your own"):
        ol.load_model(path)


def test_the_conv_featurizer_is_rebuilt(path):
    featurizer = ol.nn.ConvFeaturizer(1, activation="relu")
    model = ol.create_model("deep_sets", 256, 1, width=8, featurizer=featurizer)
    ol.save_model(model, path)
    loaded = ol.load_model(path)
    images = torch.randn(1, 2, 1, 64, 64)
    assert torch.equal(loaded(images), model(images))


def standardizing(clip=2.5):
    torch.manual_seed(0)
    featurizer = ol.nn.Standardizer(torch.randn(2) * 100, torch.rand(2) + 1e-6, clip=clip)
    return ol.create_model("deep_sets++", 2, 1, depth=2, width=8, featurizer=featurizer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_standardizer_is_rebuilt_with_its_numbers(path, dtype):
    model = standardizing().to(dtype)
    ol.save_model(model, path)
    loaded = ol.load_model(path)
    assert type(loaded.featurizer) is ol.nn.Standardizer
    assert loaded.featurizer.clip == 2.5
    for name, value in model.featurizer.state_dict().items():
        assert loaded.featurizer.state_dict()[name].dtype == dtype
        assert torch.equal(loaded.featurizer.state_dict()[name], value)
    batch = make_batch([4, 0, 7], 2, dtype=dtype)
    batch = batch.with_x(batch.x + model.featurizer.mean)
    assert torch.equal(loaded(batch), model(batch))


def test_a_standardizer_that_never_clips_comes_back(path):
    ol.save_model(standardizing(clip=float("inf")), path)
    assert ol.load_model(path).featurizer.clip == float("inf")


def test_a_subclass_of_the_standardizer_is_ones_own(path):
    class Mine(ol.nn.Standardizer):
        pass

    ol.save_model(ol.create_model("deep_sets", 1, 1, width=8, featurizer=Mine([0.0], [1.0])), path)
    with pytest.raises(ValueError, match="a featurizer of your own"):
        ol.load_model(path)


@pytest.mark.parametrize(
    "described",
    [
        {"kind": "standard"},
        {"kind": "standard", "features": 2},
        {"kind": "standard", "features": "two", "clip": 1.0},
        {"kind": "standard", "features": [2], "clip": 1.0},
        {"kind": "standard", "features": -1, "clip": 1.0},
        {"kind": "standard", "features": 2, "clip": None},
        {"kind": "standard", "features": 2, "clip": 0.0},
    ],
    ids=str,
)
def test_a_damaged_standardizer_is_refused(path, described):
    ol.save_model(standardizing(), path)
    rewrite(path, lambda d: d.update(featurizer=described))
    with pytest.raises(ValueError, match="is damaged: its featurizer is"):
        ol.load_model(path)


def test_a_standardizer_of_other_features_than_its_numbers_is_refused(path):
    ol.save_model(standardizing(), path)
    rewrite(path, lambda d: d["featurizer"].update(features=3))
    with pytest.raises(ValueError, match=r"do not fit.*featurizer\.mean"):
        ol.load_model(path)


def test_a_featurizer_of_ones_own_is_asked_for_and_filled(path):
    model = ol.create_model("deep_sets", 2, 1, width=8, featurizer=torch.nn.Linear(5, 2))
    ol.save_model(model, path)
    with pytest.raises(ValueError, match=r"a featurizer of your own, torch.*Linear.*featurizer="):
        ol.load_model(path)
    loaded = ol.load_model(path, featurizer=torch.nn.Linear(5, 2))
    x = torch.randn(1, 3, 5)
    assert torch.equal(loaded(x), model(x))
    with pytest.raises(ValueError, match="do not fit the featurizer given"):
        ol.load_model(path, featurizer=torch.nn.Linear(6, 2))
    with pytest.raises(ValueError, match="the featurizer gives 3 features, but in_features=2"):
        ol.load_model(path, featurizer=torch.nn.Linear(5, 3))
    with pytest.raises(TypeError, match=r"featurizer must be an nn\.Module, got <class"):
        ol.load_model(path, featurizer=torch.nn.Linear)


def test_a_featurizer_nobody_needs_is_refused(model, path):
    ol.save_model(model, path)
    with pytest.raises(ValueError, match="needs no featurizer"):
        ol.load_model(path, featurizer=torch.nn.Linear(5, 2))


def test_only_models_of_ours_are_saved(path):
    with pytest.raises(TypeError, match="made by create_model, got Linear"):
        ol.save_model(torch.nn.Linear(2, 2), path)
    with pytest.raises(TypeError, match=r"Pass what it wraps: `model\.module`"):
        ol.save_model(torch.nn.DataParallel(ol.create_model("deep_sets", 2, 1, width=8)), path)


def test_pickles_are_refused_unread(model, path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(path.parent / "boom"),))

    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        ol.load_model(path)
    torch.save(model.state_dict(), path)
    with pytest.raises(ValueError, match="load_released"):
        ol.load_model(path)
    assert not (path.parent / "boom").exists()


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.999])
def test_truncated_files_are_refused(model, path, keep):
    ol.save_model(model, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        ol.load_model(path)


def test_safetensors_of_somebody_else_are_refused(path):
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="not one of save_model's"):
        ol.load_model(path)
    save_file({"a": torch.zeros(1)}, path, metadata={"orderless": '{"format": "other"}'})
    with pytest.raises(ValueError, match="not one of save_model's"):
        ol.load_model(path)


def test_a_header_without_end_and_weights_that_are_whole_numbers_are_refused(model, path):
    save_file({"a": torch.zeros(1)}, path, metadata={"orderless": "[" * 100_000})
    with pytest.raises(ValueError, match="not one of save_model's"):
        ol.load_model(path)
    ol.save_model(model, path)
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {key: file.get_tensor(key).long() for key in file.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ValueError, match="do not fit its configuration"):
        ol.load_model(path)


def rewrite(path, change):
    """Changes the JSON header of a saved model."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    description = json.loads(header["__metadata__"]["orderless"])
    change(description)
    header["__metadata__"]["orderless"] = json.dumps(description)
    new = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(new)) + new + content[8 + length :])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=99), "format version 99, this orderless reads 1"),
        (lambda d: d["config"].pop("norm"), "damaged: its configuration"),
        (lambda d: d["config"].update(name="resnet"), "damaged: its configuration"),
        (lambda d: d["config"].update(norm="sett"), "damaged: its configuration is that of no network: norm must be one of"),
        (lambda d: d["config"].update(width=16), "do not fit its configuration"),
        (lambda d: d["config"].update(depth=4), "do not fit its configuration"),
        (lambda d: d["config"].update(depth=4000), "it says depth 4000, which 19 tensors cannot fill"),
        (lambda d: d["config"].update(width=100_000), "do not fit its configuration"),
        (lambda d: d["config"].update(width=10**12), "that of no network: width must be at most 16,777,216; got 10{12}"),
        (lambda d: d["config"].update(width=10**30), "that of no network: width must be at most 16,777,216; got 10{30}"),
        (lambda d: d["config"].update(name=["deep_sets"]), "damaged: its configuration"),
        (lambda d: d.update(featurizer={"kind": "zip"}), "names a featurizer"),
        (lambda d: d.update(featurizer="x"), "names a featurizer"),
        (lambda d: d.update(featurizer="conv"), "names a featurizer"),
        (lambda d: d.update(featurizer={"kind": "conv"}), "damaged: its featurizer"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(model, path, change, message):
    ol.save_model(model, path)
    rewrite(path, change)
    with pytest.raises(ValueError, match=message):
        ol.load_model(path)


def test_missing_files_and_folders_are_named(model, tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        ol.load_model(tmp_path)
    with pytest.raises(FileNotFoundError, match="no model file at"):
        ol.load_model(tmp_path / "nothing.safetensors")
    with pytest.raises(FileNotFoundError, match=r"does not exist\. Create it first"):
        ol.save_model(model, tmp_path / "no" / "model.safetensors")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        ol.save_model(model, tmp_path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(model, path, monkeypatch):
    ol.save_model(model, path)
    before = path.read_bytes()

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(serialize.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        ol.save_model(ol.create_model("deep_sets", 2, 1, width=8), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_file_can_be_read_by_whom_the_umask_lets(model, path):
    previous = os.umask(0o027)
    try:
        ol.save_model(model, path)
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o640


def test_saving_leaves_the_umask_alone(model, path, monkeypatch):
    """It is one for all threads: a file that another one makes in between would be open to everybody."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
    ol.save_model(model, path)


def _with_other_eps(model):
    next(layer for layer in model.modules() if isinstance(layer, ol.nn.SetNorm)).eps = 1e-3


class SumPool(ol.nn.SumPool):
    """One of the user's own that is called as ours is."""


EXCHANGED = {
    "pool is MeanPool() instead of SumPool()": lambda model: setattr(model, "pool", ol.nn.MeanPool()),
    "decoder.1 is GELU(approximate='none') instead of ReLU()": lambda model: model.decoder.__setitem__(1, torch.nn.GELU()),
    "out_features=5, bias=True) instead of Linear(": lambda model: model.decoder.__setitem__(6, torch.nn.Linear(8, 5)),
    "eps=0.001) instead of SetNorm(8, eps=1e-05)": _with_other_eps,
    "test_serialize.SumPool() instead of SumPool()": lambda model: setattr(model, "pool", SumPool()),
    "is ParametrizedLinear(": lambda model: torch.nn.utils.parametrizations.weight_norm(model.decoder[0]),
}


@pytest.mark.parametrize(("says", "exchange"), EXCHANGED.items(), ids=EXCHANGED)
def test_a_network_that_its_file_could_not_give_back_is_refused(tmp_path, says, exchange):
    model = ol.create_model("deep_sets++", 2, 1, depth=2, width=8)
    exchange(model)
    with pytest.raises(ValueError, match="save_model writes networks as create_model makes them") as caught:
        ol.save_model(model, tmp_path / "model.safetensors")
    assert says in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_another_order_in_one_block_is_refused(path):
    model = ol.create_model("set_transformer++", 2, 1, depth=1, width=8, num_heads=2)
    model.encoder[1].gather.order = "paper"
    with pytest.raises(ValueError, match=r"encoder\.1\.gather is MABPlusPlus\(order='paper'\) instead of"):
        ol.save_model(model, path)


def test_a_layer_exchanged_inside_the_conv_featurizer_is_refused(path):
    model = ol.create_model("deep_sets", 256, 1, width=8, featurizer=ol.nn.ConvFeaturizer(1))
    model.featurizer.layers[9] = torch.nn.AvgPool2d(2)
    with pytest.raises(ValueError, match=r"featurizer\.layers\.9 is AvgPool2d\(.*\) instead of Conv2d"):
        ol.save_model(model, path)


class TwiceTheSame(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


def test_weights_that_a_featurizer_uses_twice_stay_one(path):
    model = ol.create_model("deep_sets", 2, 1, width=8, featurizer=TwiceTheSame())
    ol.save_model(model, path)
    loaded = ol.load_model(path, featurizer=TwiceTheSame())
    assert loaded.featurizer.first.weight is loaded.featurizer.second.weight
    assert torch.equal(loaded.featurizer.first.weight, model.featurizer.first.weight)
    assert loaded.featurizer.first.bias is not loaded.featurizer.second.bias


def test_norms_that_took_statistics_over_processes_can_be_saved(tmp_path):
    model = ol.create_model("deep_sets++", 2, 1, depth=2, width=4, norm="feature")
    model.encoder[1].branch.norm1.sync = True
    ol.save_model(model, tmp_path / "m.safetensors")
    assert not ol.load_model(tmp_path / "m.safetensors").encoder[1].branch.norm1.sync
