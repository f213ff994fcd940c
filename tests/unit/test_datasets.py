from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamgmm import datasets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "named").mkdir()
    (tmp_path / "cache" / "streamgmm").mkdir(parents=True)
    return tmp_path / "named"


def pack(path: Path, images: np.ndarray) -> None:
    labels = np.arange(1, len(images) + 1, dtype=np.uint8)
    np.savez_compressed(path, x_train=images, y_train=labels, x_test=images[:2], y_test=labels[:2])


def test_images_stay_bytes_until_they_are_scaled(folder: Path) -> None:
    images = np.random.default_rng(0).integers(256, size=(5, 4, 3, 3)).astype(np.uint8)
    pack(folder / "svhn.npz", images)
    data = datasets.load("svhn")
    assert data.x_train.dtype == np.uint8
    assert data.shape == (4, 3, 3)
    assert data.n_features == 36
    rows = datasets.scaled(data.x_train)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, images.reshape(5, 36) / 255, rtol=1e-6)


def test_isolet_is_shifted_to_the_unit_interval(folder: Path) -> None:
    values = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)
    pack(folder / "isolet.npz", values)
    data = datasets.load("isolet")
    assert data.shape is None
    assert data.y_train.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(datasets.scaled(data.x_train), (values + 1) / 2, atol=1e-6)


def test_fruits_are_unpacked_from_their_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "fruits360.zip", "w") as archive:
        for part, count in (("train", 3), ("test", 1)):
            for kind, shade in (("Plum", 200), ("Grape", 30)):
                for i in range(count):
                    raw = io.BytesIO()
                    Image.new("RGB", (4, 4), (shade, i, 0)).save(raw, "PNG")
                    archive.writestr(f"{part}/{kind}/{i}.png", raw.getvalue())
    data = datasets.load("fruits360")
    assert data.x_train.shape == (6, 48)
    assert data.shape == (4, 4, 3)
    assert data.y_train.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.x_train[0, 0] == 30
    assert data.x_train[5, 0] == 200


def test_the_named_folder_comes_before_the_cache(folder: Path) -> None:
    cache = folder.parent / "cache" / "streamgmm"
    pack(cache / "mnist.npz", np.zeros((3, 2, 2), np.uint8))
    assert len(datasets.load("mnist").x_train) == 3
    pack(folder / "mnist.npz", np.zeros((7, 2, 2), np.uint8))
    assert len(datasets.load("mnist").x_train) == 7


def test_what_is_missing_or_broken_is_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"mnist.npz was not found at .*named.* or .*cache.*Put it there"):
        datasets.load("mnist")
    with pytest.raises(ValueError, match="data set 'cifar' is unknown; expected one of mnist"):
        datasets.load("cifar")
    pack(folder / "mnist.npz", np.random.default_rng(0).integers(256, size=(50, 8, 8)).astype(np.uint8))
    whole = (folder / "mnist.npz").read_bytes()
    (folder / "mnist.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"mnist.npz is broken or half-written"):
        datasets.load("mnist")
