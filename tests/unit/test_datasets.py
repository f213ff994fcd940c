"""Data sets: where they are found, how they are read, and what is said if they are not."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamgmm import SourceError, datasets


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


def test_fruits_are_read_from_their_zip_file(folder: Path) -> None:
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
    assert sorted(data.y_train.tolist()) == [0, 0, 0, 1, 1, 1]
    assert data.y_train.tolist() != sorted(data.y_train.tolist())  # the file is in class order
    np.testing.assert_array_equal(data.x_train[:, 0], np.where(data.y_train == 0, 30, 200))
    again = datasets.load("fruits360")
    np.testing.assert_array_equal(data.x_train, again.x_train)


def test_the_named_folder_comes_before_the_cache(folder: Path) -> None:
    cache = folder.parent / "cache" / "streamgmm"
    pack(cache / "mnist.npz", np.zeros((3, 2, 2), np.uint8))
    assert len(datasets.load("mnist").x_train) == 3
    pack(folder / "mnist.npz", np.zeros((7, 2, 2), np.uint8))
    assert len(datasets.load("mnist").x_train) == 7


def test_missing_and_damaged_files_are_named(folder: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"svhn.npz was not found at .*named.* or .*cache.*x_train.*'svhn' with"
    ):
        datasets.load("svhn")
    with pytest.raises(FileNotFoundError, match=r"fruits360.zip was not found.*train/<class>/ and test/<class>/"):
        datasets.load("fruits360")
    with pytest.raises(ValueError, match="data set 'cifar' is unknown; expected one of mnist"):
        datasets.load("cifar")
    pack(folder / "mnist.npz", np.random.default_rng(0).integers(256, size=(50, 8, 8)).astype(np.uint8))
    whole = (folder / "mnist.npz").read_bytes()
    (folder / "mnist.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"mnist.npz is damaged or incomplete"):
        datasets.load("mnist")
    pack(folder / "svhn.npz", np.zeros((5, 2, 2), np.uint8))
    np.savez(folder / "svhn.npz", x_train=np.zeros((5, 4)), y_train=np.zeros(3), x_test=np.zeros((1, 4)), y_test=[0])
    with pytest.raises(ValueError, match="5 samples and 3 labels"):
        datasets.load("svhn")


def test_classes_are_chosen(folder: Path) -> None:
    pack(folder / "mnist.npz", np.arange(6, dtype=np.uint8).reshape(6, 1, 1))
    data = datasets.load("mnist")
    some = data.classes([2, 5])
    assert some.y_train.tolist() == [2, 5]
    assert some.x_train.ravel().tolist() == [1, 4]
    assert some.y_test.tolist() == [2]
    with pytest.raises(ValueError, match=r"classes \[9\] do not exist; mnist has classes 1 to 6"):
        data.classes([1, 9])


def test_a_folder_of_images_is_read(folder: Path) -> None:
    for part in ("train", "test"):
        for letter, shade in (("A", 10), ("B", 99)):
            place = folder / "notmnist" / part / letter
            place.mkdir(parents=True)
            Image.new("L", (3, 3), shade).save(place / "1.png")
    data = datasets.load("notmnist")
    assert data.shape == (3, 3)
    assert data.x_train[data.y_train == 1, 0].tolist() == [99]
    (folder / "notmnist" / "train" / "A" / "1.png").write_bytes(b"half")
    with pytest.raises(ValueError, match="notmnist is damaged"):
        datasets.load("notmnist")


class Fetched:
    data = np.arange(60_002 * 784, dtype=np.float64).reshape(-1, 784) % 256
    target = np.array(["7"] * 60_001 + ["3"])


def test_openml_is_downloaded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fetch(name: str, **settings: object) -> Fetched:
        calls.append((name, settings["version"]))
        return Fetched()

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    first, second = datasets.load("mnist"), datasets.load("mnist")
    assert calls == [("mnist_784", 1)]
    assert first.x_train.shape == (60_000, 784)
    assert first.x_train.dtype == np.uint8
    assert second.y_test.tolist() == [7, 3]
    assert second.shape == (28, 28)
    np.testing.assert_array_equal(first.x_test, second.x_test)


def test_without_openml_the_file_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(name: str, **settings: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(
        FileNotFoundError, match=r"mnist.npz was not found.*could not be downloaded from OpenML \(no route to host\)"
    ):
        datasets.load("mnist")
    assert not (folder.parent / "cache" / "streamgmm" / "mnist.npz").exists()


def test_ensure_names_all_that_are_missing(folder: Path) -> None:
    pack(folder / "mnist.npz", np.zeros((3, 2, 2), np.uint8))
    datasets.ensure(["mnist"])
    with pytest.raises(FileNotFoundError, match=r"svhn.npz was not found.*notmnist.npz was not found"):
        datasets.ensure(["mnist", "svhn", "notmnist"])


def test_the_listing_says_what_is_there(folder: Path) -> None:
    pack(folder / "mnist.npz", np.zeros((3, 2, 2), np.uint8))
    (folder / "notmnist").mkdir()
    found = {known.name: known for known in datasets.listing()}
    assert list(found) == list(datasets.FILES)
    mnist = found["mnist"]
    assert mnist.place == folder / "mnist.npz"
    assert mnist.sha256 == hashlib.sha256((folder / "mnist.npz").read_bytes()).hexdigest()
    assert mnist.sha256 != mnist.expected
    assert (found["notmnist"].place, found["notmnist"].sha256) == (folder / "notmnist", None)
    assert (found["svhn"].place, found["svhn"].sha256) == (None, None)
    assert "OpenML" in found["isolet"].origin
    assert "train_32x32.mat" in found["svhn"].origin
    assert all(len(known.expected) == 64 for known in found.values())


@pytest.mark.skipif(not os.environ.get("STREAMGMM_DATA"), reason="STREAMGMM_DATA names no folder")
def test_checksums_are_those_of_our_files() -> None:
    known = [known for known in datasets.listing() if known.sha256 is not None]
    assert known
    assert [k.name for k in known if k.sha256 != k.expected] == []
