"""Runs on files: any order of rows gives the same quality, passes end by themselves, small files are refined."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.sources import Chunk, Position, Source, SourceError, open_source
from streamgmm.sources.numpy_files import ArraySource
from streamgmm.storage import events
from streamgmm.storage.run_folder import EVENTS, MODEL, latest_checkpoint

CENTRES = np.array([[0, 0, 0], [5, 0, 9], [0, 5, -9], [5, 5, 0]], float)
AUTO = {"passes": "auto", "shuffle": "auto"}


def clusters(count: int, seed: int = 0) -> np.ndarray:
    """Rows sorted by cluster."""
    rng = np.random.default_rng(seed)
    return rng.normal(np.repeat(CENTRES, count // 4, axis=0), 1.0)


class Stream(Source):
    """Rows that can only be read from their start."""

    name = "stream"

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        for at in range(start["row"] if start else 0, len(self._rows), 500):
            rows = self._rows[at : at + 500]
            yield Chunk(rows, np.arange(at, at + len(rows)), {"row": at + len(rows)})


def begin(folder: Path, source: Source | np.ndarray, settings: dict[str, Any] | None = None, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    source = ArraySource("rows", source) if isinstance(source, np.ndarray) else source
    chosen = Settings(**{"n_components": 4, "scale": "auto", **(settings or {})})
    return TrainingRun(folder, source, chosen, Serial(), RunOptions(**{**AUTO, **options}))


def finish(run: TrainingRun) -> TrainingRun:
    for _ in run.go():
        pass
    assert run.trainer is not None
    return run


def quality(run: TrainingRun, rows: np.ndarray) -> float:
    assert run.trainer is not None
    return float(run.trainer.mixture.log_prob(rows).mean())


def start_event(folder: Path) -> dict[str, Any]:
    return next(e for e in events.read(folder / EVENTS) if e["kind"] == "start")


class TestOrder:
    def test_a_sorted_file_is_learned_as_well_as_a_shuffled_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("streamgmm.sources.shuffled.BUFFER_BYTES", 1 << 18)  # four buffers
        monkeypatch.setattr("streamgmm.sources.seekable.BLOCK_BYTES", 1 << 12)
        rows, test = clusters(40_000), clusters(4000, 1)
        mixed = np.random.default_rng(0).permutation(rows)
        settings = {"n_components": 16}
        here = finish(begin(tmp_path / "sorted", rows, settings, passes=1))
        there = finish(begin(tmp_path / "mixed", mixed, settings, passes=1, shuffle="no"))
        plain = finish(begin(tmp_path / "plain", rows, settings, passes=1, shuffle="no"))
        assert abs(quality(here, test) - quality(there, test)) < 0.00579 * 3
        assert quality(plain, test) < quality(here, test) - 0.1  # in its order, the first clusters are forgotten

    @pytest.mark.parametrize("kind", ["diag", "full"])
    def test_so_does_one_that_is_refined(self, kind: str, tmp_path: Path) -> None:
        rows = clusters(1200)
        orders = rows, rows[::-1], np.random.default_rng(0).permutation(rows)
        settings = {"covariance_type": kind}
        runs = [finish(begin(tmp_path / str(i), x.copy(), settings, shuffle="yes")) for i, x in enumerate(orders)]
        assert all(run.refined for run in runs)
        first, *others = [run.trainer.mixture for run in runs if run.trainer is not None]
        for other in others:
            np.testing.assert_array_equal(first.means, other.means)
            np.testing.assert_array_equal(first.covariances, other.covariances)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
    def test_a_file_that_fits_gives_the_same_model_in_any_order(self, dtype: type, tmp_path: Path) -> None:
        rows = np.clip(10 * clusters(4000) + 120, 0, 255).astype(dtype)
        rows = np.concatenate([rows, np.repeat(rows[:1], 300, axis=0)])  # copies, too
        orders = rows, rows[::-1], np.random.default_rng(0).permutation(rows)
        runs = [finish(begin(tmp_path / str(i), np.ascontiguousarray(x), passes=3)) for i, x in enumerate(orders)]
        first, *others = [run.trainer.mixture for run in runs if run.trainer is not None]
        for other in others:
            np.testing.assert_array_equal(first.means, other.means)
            np.testing.assert_array_equal(first.covariances, other.covariances)
            np.testing.assert_array_equal(first.weights, other.weights)

    @pytest.mark.parametrize(
        ("settings", "options", "reason"),
        [
            ({"half_life": 1000.0}, {}, "half-life"),
            ({"reheat": True}, {}, "drift"),
            ({}, {"shuffle": "no"}, "as requested"),
        ],
    )
    def test_when_order_matters_it_is_kept(
        self, tmp_path: Path, settings: dict[str, Any], options: dict[str, Any], reason: str
    ) -> None:
        run = finish(begin(tmp_path, clusters(1200), settings, **{**options, "passes": 1}))
        assert not run.order.shuffled
        assert reason in start_event(tmp_path)["order"]
        assert start_event(tmp_path)["shuffled"] is False

    def test_a_shuffled_run_says_so_and_what_it_takes(self, tmp_path: Path) -> None:
        finish(begin(tmp_path, clusters(1200)))
        event = start_event(tmp_path)
        assert event["shuffled"] is True
        assert "buffer of up to 256 MB" in event["order"]
        assert event["buffer_bytes"] == 256 << 20

    def test_a_stream_keeps_its_order_and_has_one_pass(self, tmp_path: Path) -> None:
        run = finish(begin(tmp_path, Stream(clusters(1200))))
        assert "can only be read from its start" in str(run.order)
        assert (run.progress.samples, run.refined) == (1200, False)
        with pytest.raises(SourceError, match="rows of stream cannot be shuffled: stream can only be read from"):
            begin(tmp_path, Stream(clusters(1200)), shuffle="yes")

    def test_no_drift_is_reported(self, tmp_path: Path) -> None:
        """Though the file changes in the middle, and a run in its order reports that."""
        rng = np.random.default_rng(0)
        rows = np.concatenate([rng.normal(0, 1, (15_000, 5)), rng.normal(8, 1, (15_000, 5))])
        for shuffle, expected in (("no", True), ("auto", False)):
            finish(begin(tmp_path / shuffle, rows, {"n_components": 9}, passes=1, shuffle=shuffle))
            found = list(events.read(tmp_path / shuffle / EVENTS))
            assert any(e["kind"] == "drift" for e in found) is expected
            assert any(e["drift"] for e in found) is expected

    def test_strange_rows_keep_their_numbers(self, tmp_path: Path) -> None:
        rows = clusters(8000)
        rows[1234] += 300
        run = finish(begin(tmp_path, rows, passes=2))
        assert run.monitor.strangest.numbers[0] == 1234

    def test_a_run_of_before_keeps_its_order(self, tmp_path: Path) -> None:
        """A checkpoint that says nothing about shuffling was written in the order of the file."""
        run = begin(tmp_path, clusters(4000), passes=1, shuffle="no")
        next(run.go())
        run.save()
        saved, record = latest_checkpoint(tmp_path) or pytest.fail("no checkpoint")
        again = begin(tmp_path, clusters(4000), passes=1)
        assert again.order.shuffled
        assert again.resume(saved, record)
        assert not finish(again).order.shuffled
        assert again.progress.samples == 4000


class TestPasses:
    @pytest.mark.parametrize("rows", [40, 400, 9000])
    def test_as_many_as_fit_makes(self, tmp_path: Path, rows: int) -> None:
        run = finish(begin(tmp_path, clusters(rows)))
        model = StreamingGaussianMixture(4, scale="auto", n_epochs="auto", random_state=0).fit(clusters(rows))
        assert run.progress.samples == model.n_samples_seen_ == (run.progress.epoch + 1) * rows
        assert run.expected_samples == run.progress.samples

    def test_a_file_of_unknown_length(self, tmp_path: Path) -> None:
        np.savetxt(tmp_path / "x.csv.gz", clusters(800), delimiter=",")
        run = finish(begin(tmp_path / "run", open_source(str(tmp_path / "x.csv.gz"))))
        assert not run.order.shuffled
        assert run.progress.samples == 800 * -(-160 * 50 // 800)
        assert run.refined

    @pytest.mark.parametrize("settings", [{"half_life": 500.0}, {"reheat": True}])
    def test_models_that_follow_a_change_have_one(self, tmp_path: Path, settings: dict[str, Any]) -> None:
        run = finish(begin(tmp_path, clusters(400), settings))
        assert (run.progress.samples, run.refined) == (400, False)

    def test_bad_rows_and_gaps_are_counted_once(self, tmp_path: Path) -> None:
        lines = [",".join(f"{v:.4f}" for v in row) for row in clusters(400)]
        lines[7], lines[300] = "1,oops,2", ",1,2"
        (tmp_path / "x.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
        source = open_source(str(tmp_path / "x.csv"), skip_bad=True, missing=True)
        run = finish(begin(tmp_path / "run", source, missing="skip"))
        assert run.progress.epoch > 1
        assert (run.progress.bad, run.missing_rows, [b.row for b in run.bad]) == (1, 1, [7])
        with (tmp_path / "x.csv").open("a") as file:
            file.write("1,oops,2\n1,,2\n1,2,3\n")
        again = begin(
            tmp_path / "run", open_source(str(tmp_path / "x.csv"), skip_bad=True, missing=True), missing="skip"
        )
        assert again.resume(*(latest_checkpoint(tmp_path / "run") or pytest.fail("no checkpoint")))
        finish(again)
        assert (again.progress.bad, again.missing_rows, [b.row for b in again.bad]) == (2, 2, [400])


class TestRefinement:
    def test_the_quality_of_fit(self, tmp_path: Path) -> None:
        from sklearn.datasets import load_wine

        rows = load_wine().data
        run = finish(begin(tmp_path, rows))
        assert run.refined
        model = StreamingGaussianMixture(4, scale="auto", n_epochs="auto", random_state=0).fit(rows)
        assert abs(quality(run, rows) - model.score(rows)) < 0.03 * rows.shape[1]  # another order, another maximum
        assert list(events.read(tmp_path / EVENTS))[-2]["refined"] is True

    def test_bursts_are_left_out_and_counted_unless_order_means_nothing(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        rows = rng.permutation(clusters(2000))
        rows[1000:1010] += 40.0
        run = finish(begin(tmp_path / "a", rows, {"n_components": 8}))
        assert run.refined
        assert run.bursts == list(range(1000, 1010))
        assert [e["burst_rows"] for e in events.read(tmp_path / "a" / EVENTS) if e["kind"] == "end"] == [10]
        shuffled = finish(begin(tmp_path / "b", rows, {"n_components": 8}, shuffle="yes"))
        assert shuffled.refined
        assert shuffled.bursts == []
        strange, learned = (r.trainer.mixture.log_prob(rows[1000:1010]).mean() for r in (run, shuffled))
        assert strange < learned - 10

    def test_what_is_typical_refers_to_the_refined_model(self, tmp_path: Path) -> None:
        rows = clusters(400)
        run = finish(begin(tmp_path, rows))
        assert run.trainer is not None
        scores = run.trainer.mixture.log_prob(rows)
        assert len(run.monitor.reference.scores) == 400
        assert np.median(scores) - 0.5 < run.monitor.reference.threshold(0.5) < np.median(scores)
        assert run.monitor.strangest.scores[0] == run.monitor.reference.scores[0] <= scores.min()

    @pytest.mark.parametrize("limit", ["core.passes.MOST_REFINED", "runs.refinement.MOST_NUMBERS"])
    def test_not_of_many_rows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
        monkeypatch.setattr(f"streamgmm.{limit}", 400 * 3 - 1)
        assert not finish(begin(tmp_path, clusters(400))).refined

    def test_not_with_a_number_of_passes_nor_without_raw_data(self, tmp_path: Path) -> None:
        assert not finish(begin(tmp_path / "some", clusters(400), passes=20)).refined
        assert not finish(begin(tmp_path / "none", clusters(400) / 10, {"scale": "none"})).refined

    def test_not_after_another_source(self, tmp_path: Path) -> None:
        """Batch EM on the second file alone would forget the first one."""
        finish(begin(tmp_path, clusters(400)))
        again = begin(tmp_path, ArraySource("others", clusters(400, 1)))
        assert not again.resume(*(latest_checkpoint(tmp_path) or pytest.fail("no checkpoint")))
        assert not finish(again).refined
        assert again.progress.samples == 16_000

    def test_a_run_that_is_cut_anywhere_ends_where_a_whole_one_does(self, tmp_path: Path) -> None:
        rows = clusters(1500)
        whole = finish(begin(tmp_path / "whole", rows))
        assert whole.refined
        cut, refining = begin(tmp_path / "cut", rows), False
        while not refining:
            refining = next(cut.go()).refining
            cut.save(log_event=False)
            found = latest_checkpoint(tmp_path / "cut")
            assert found is not None
            cut = begin(tmp_path / "cut", rows)
            assert cut.resume(*found)
        finish(cut)
        assert cut.progress.finished
        assert cut.refined
        assert whole.trainer is not None
        for name, values in whole.trainer.tensors().items():
            np.testing.assert_array_equal(cut.trainer.tensors()[name], values, err_msg=name)
        np.testing.assert_array_equal(cut.monitor.reference.scores, whole.monitor.reference.scores)


class TestRefinementOnASample:
    """Between the first pass and the second one, where features are correlated."""

    SETTINGS: ClassVar[dict[str, Any]] = {"n_components": 3, "covariance_type": "full"}

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("streamgmm.core.passes.MOST_REFINED", 0)
        monkeypatch.setattr("streamgmm.core.passes.LEAST_SAMPLED", 400)

    def test_it_is_announced_and_learns_like_fit(self, tmp_path: Path) -> None:
        rows = clusters(6000)
        run, told = begin(tmp_path, rows, self.SETTINGS), list[int]()
        for status in run.go():
            told += [status.refining] if status.refining else []
        assert told == [400]
        assert not run.refined
        fitted = StreamingGaussianMixture(**self.SETTINGS, random_state=0).fit(rows)
        assert run.progress.samples == run.expected_samples == fitted.n_samples_seen_
        assert abs(quality(run, rows) - fitted.score(rows)) < 0.05

    @pytest.mark.parametrize(
        ("settings", "options"),
        [
            ({"covariance_type": "diag"}, {"passes": 3}),
            ({"rule": "sgd"}, {"passes": 3}),
            ({}, {"passes": 3, "shuffle": "no"}),
            ({}, {"passes": 1}),
        ],
    )
    def test_not_otherwise(self, tmp_path: Path, settings: dict[str, Any], options: dict[str, Any]) -> None:
        run = begin(tmp_path, clusters(6000), {**self.SETTINGS, **settings}, **options)
        assert not any(status.refining for status in run.go())

    @pytest.mark.parametrize("passes", ["auto", 2])
    def test_a_run_that_is_cut_anywhere_ends_where_a_whole_one_does(self, tmp_path: Path, passes: int | str) -> None:
        rows = clusters(3600)
        whole = finish(begin(tmp_path / "whole", rows, self.SETTINGS, passes=passes))
        cut, announced = begin(tmp_path / "cut", rows, self.SETTINGS, passes=passes), 0
        while not cut.progress.finished:
            steps = cut.go()
            status = next(steps, None)
            if status is not None and status.refining and (announced := announced + 1) > 1:
                next(steps)  # the refinement; the first time, the run is cut before it
            cut.save(log_event=False)
            found = latest_checkpoint(tmp_path / "cut")
            assert found is not None
            cut = begin(tmp_path / "cut", rows, self.SETTINGS, passes=passes)
            assert cut.resume(*found)
        assert announced == 2
        assert whole.trainer is not None
        for name, values in whole.trainer.tensors().items():
            np.testing.assert_array_equal(cut.trainer.tensors()[name], values, err_msg=name)


def test_a_run_remembers_its_passes_and_its_seed(tmp_path: Path) -> None:
    run = begin(tmp_path, clusters(4000), passes=2, seed=7)
    next(run.go())
    run.save()
    _, record = latest_checkpoint(tmp_path) or pytest.fail("no checkpoint")
    assert (record.passes, record.shuffle_seed) == (2, 7)
    assert json.loads(json.dumps(record.facts()))["progress"]["pass_rows"] == 1000
    assert (tmp_path / MODEL).exists()
