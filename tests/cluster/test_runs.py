"""Runs whose workers are simulated in this process: the same code as on a cluster, without one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm import RayEngine, SourceError, StreamGMMError, StreamingGaussianMixture, native
from streamgmm.cluster.round_length import MEASURED, RoundLength
from streamgmm.cluster.worker import ShareWorker
from streamgmm.engines.ray import Description, common_width, require_version
from streamgmm.engines.ray_connection import connect
from streamgmm.engines.workers import LocalCluster
from streamgmm.errors import ClusterError, SettingError
from streamgmm.runs.cluster_score import ScoreJob, part_file, score_parts
from streamgmm.sources import open_source
from streamgmm.storage import events, load_model
from tests.cluster.runs import assert_same_model, go, resumed, start, write_rows
from tests.conftest import make_trainer


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows") / "x.npy", 12_000)


@pytest.mark.parametrize("shuffle", ["yes", "no"])
@pytest.mark.parametrize("scale", ["auto", "none"])
def test_threads_and_turns_agree(rows: Path, tmp_path: Path, shuffle: str, scale: str) -> None:
    alone, threads = LocalCluster(3, 300), LocalCluster(3, 300, threads=True)
    here = go(start(tmp_path / "a", rows, alone, shuffle=shuffle, scale=scale))
    there = go(start(tmp_path / "b", rows, threads, shuffle=shuffle, scale=scale))
    assert here.progress.samples == 12_000
    assert here.progress.finished
    assert_same_model(here, there)


KINDS: dict[str, dict[str, Any]] = {
    "low rank": {"covariance_type": "low_rank", "rank": 3},
    "low rank, gaps": {"covariance_type": "low_rank", "rank": 3, "allow_nan": True},
    "full": {"covariance_type": "full"},
    "sgd": {"rule": "sgd", "scale": "none"},
    "sem": {"rule": "sem", "scale": "none"},
    "sem, full": {"rule": "sem", "scale": "none", "covariance_type": "full"},
    "half-life": {"half_life": 3000.0},
    "batches": {"batch_size": 7},
}


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_and_rules_agree(rows: Path, tmp_path: Path, kind: str) -> None:
    engines = [LocalCluster(3, 300), LocalCluster(3, 300, threads=True)]
    passes = 3 if kind == "sgd" else 1  # until its annealing has ended: before, replicas take larger, noisier steps
    here, there = (go(start(tmp_path / f"{e.threads}", rows, e, passes=passes, **KINDS[kind])) for e in engines)
    assert here.progress.samples == 12_000 * passes
    assert_same_model(here, there)
    alone, x = StreamingGaussianMixture(9, random_state=0, **KINDS[kind]), np.load(rows)
    for _ in range(passes):
        alone.partial_fit(x)
    assert here.trainer is not None
    assert here.trainer.mixture.scores(x).log_likelihood.mean() > alone.score(x) - 0.3


def test_a_run_that_is_resumed_ends_like_one_that_was_not(rows: Path, tmp_path: Path) -> None:
    whole = go(start(tmp_path / "whole", rows, LocalCluster(2, 200), passes=2))
    folder, stop = tmp_path / "parts", 1
    go(start(folder, rows, LocalCluster(2, 200), passes=2), rounds=stop)
    while not (run := resumed(folder, rows, LocalCluster(2, 200), passes=2)).progress.finished:
        stop += 7
        go(run, rounds=stop)
        if run.progress.finished:
            break
    assert run.progress.samples == 24_000
    assert_same_model(whole, run)


def test_another_number_of_workers_learns_the_rest(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[int] = []
    learn = ShareWorker.learn

    def note(self: ShareWorker, *arguments: object) -> object:
        chunks = self._reader.chunks
        self._reader.chunks = lambda *a: (learned.extend(c.numbers.tolist()) or c for c in chunks(*a))  # type: ignore
        try:
            return learn(self, *arguments)  # type: ignore[arg-type]
        finally:
            self._reader.chunks = chunks  # type: ignore[method-assign]

    monkeypatch.setattr(ShareWorker, "learn", note)
    go(start(tmp_path / "run", rows, LocalCluster(2, 200)), rounds=30)
    with pytest.warns(UserWarning, match="had 2 workers and continues with 5"):
        run = resumed(tmp_path / "run", rows, LocalCluster(5, 200))
    go(run)
    assert run.progress.samples == 12_000
    assert len(learned) == len(set(learned)) == 12_000 - 200  # the first ones are learned by the driver


def test_the_run_tells_about_its_rounds(rows: Path, tmp_path: Path) -> None:
    run = go(start(tmp_path / "run", rows, LocalCluster(2)))
    found = [e for e in events.read(run.folder / "events.jsonl") if e["kind"] == "round"]
    assert all(len(event["workers"]) == 2 for event in found)
    assert [event["left"] for event in found] == sorted((event["left"] for event in found), reverse=True)
    assert run.record.cluster is not None
    assert run.record.cluster["width"] == native.width()
    assert run.record.cluster["round"].keys() == {"samples", "chosen"}
    assert load_model(run.folder / "model.safetensors").run["cluster"] == run.record.cluster
    assert run.monitor.reference.known  # so that scores have p-values


def test_gaps_and_bad_rows_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rng = np.random.default_rng(0)
    lines = [f"{rng.random()},{rng.random()}" for _ in range(9000)]
    lines[10] = lines[4000] = "oops,1"
    lines[20] = lines[8000] = ",1"
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    reading = {"skip_bad": True, "missing": True}
    run = go(start(tmp_path / "run", path, LocalCluster(2), reading, missing="skip"))
    assert (run.progress.samples, run.progress.bad, run.progress.missing) == (8996, 2, 2)


def test_rounds_grow_with_the_training() -> None:
    trainer = make_trainer(4, n_components=4, scale="none", annealing=False)
    x = np.random.default_rng(0).random((64_000, 4))
    found = []
    for size in (800, 8_000, 55_200):
        trainer.feed(x[:size])
        found.append(RoundLength(2000).next_round(trainer, replicas=2))
    assert found == [50, 550, 4000]  # a sixteenth of the samples learned, up to two shares of 2000


def test_round_length_follows_what_a_round_costs() -> None:
    trainer = make_trainer(4, n_components=4, scale="none", annealing=False)
    trainer.feed(np.random.default_rng(0).random((200_000, 4)))
    length = RoundLength()
    assert length.next_round(trainer, replicas=2) == 12_500  # nothing is known yet but the samples learned
    for _ in range(MEASURED):
        length.observe(overhead=0.02, seconds_per_sample=1e-4)
    assert length.next_round(trainer, replicas=2) == 3600
    assert length.facts() == {"samples": 1800, "chosen": True}


def test_only_rounds_after_annealing_tell_what_a_round_costs() -> None:
    trainer, length = make_trainer(4, n_components=4, scale="none"), RoundLength()
    trainer.feed(np.random.default_rng(0).random((50, 4)))
    assert not trainer.annealed
    for _ in range(MEASURED):
        length.observe(overhead=0.02, seconds_per_sample=1e-4)
    length.next_round(trainer, replicas=2)
    assert length.facts() == {"samples": None, "chosen": False}


class TestMistakes:
    def test_sources_that_cannot_be_shared(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"workers cannot follow x\.npy; expected a Kafka topic"):
            start(tmp_path, write_rows(tmp_path / "x.npy", 10), LocalCluster(2), passes=None)
        run = start(tmp_path / "run", "glyphs:A-C", LocalCluster(2))
        with pytest.raises(SourceError, match="cannot be shared out among workers"):
            go(run)

    def test_a_run_of_one_machine(self, rows: Path, tmp_path: Path) -> None:
        go(start(tmp_path / "run", rows, LocalCluster(2)), rounds=3)
        run = start(tmp_path / "run", rows, LocalCluster(2))
        from streamgmm.storage.run_folder import latest_checkpoint

        known = latest_checkpoint(tmp_path / "run")
        assert known is not None
        known[1].cluster = None
        with pytest.raises(StreamGMMError, match="was not trained on a cluster"):
            run.resume(*known)

    @pytest.mark.parametrize("settings", [{"workers": 0}, {"workers": 2, "round_samples": 0}])
    def test_numbers_out_of_range(self, settings: dict[str, int]) -> None:
        with pytest.raises(SettingError, match="expected a number of at least 1"):
            RayEngine(**settings)

    def test_two_engines(self) -> None:
        with pytest.raises(ValueError, match=r"expected one of them\. Remove n_jobs"):
            StreamingGaussianMixture(engine=LocalCluster(2), n_jobs=2).fit(np.zeros((10, 2)))
        with pytest.raises(ValueError, match="expected a RayEngine, or None"):
            StreamingGaussianMixture(engine="ray").fit(np.zeros((10, 2)))  # type: ignore[arg-type]

    def test_an_address_where_nobody_listens(self) -> None:
        pytest.importorskip("ray")
        with pytest.raises(ClusterError, match=r"no Ray cluster answers at 127.0.0.1:9 .*Check the address"):
            connect("127.0.0.1:9", 2)

    @pytest.mark.parametrize("address", ["127.0.0.1:9", "somewhere", "head:"])
    def test_an_address_is_tried_before_anything_is_learned(self, address: str) -> None:
        with pytest.raises(ClusterError, match=rf"no Ray cluster answers at {address} \("):
            RayEngine(2, address).require_reachable()

    def test_another_version_on_a_worker(self) -> None:
        with pytest.raises(ClusterError, match=r"the worker on far has streamgmm 0\.0; .* the same version everywhere"):
            require_version([Description("0.0", ["x86-64"], "far")])

    def test_a_width_that_not_all_have(self) -> None:
        assert common_width([list(native.widths()), native.widths()[:1]], None) == native.widths()[0]
        with pytest.raises(ClusterError, match="uses the vector width v9, which not all machines have"):
            common_width([list(native.widths())], "v9")


def test_an_estimator_learns_on_a_cluster() -> None:
    x = np.random.default_rng(0).normal([[[0.0]], [[4.0]]], 0.5, (2, 5000, 3)).reshape(-1, 3)
    models = [
        StreamingGaussianMixture(4, engine=LocalCluster(3, 200, threads=threads), random_state=0, n_epochs=2).fit(x)
        for threads in (False, True)
    ]
    assert models[0].n_samples_seen_ == 20_000
    np.testing.assert_array_equal(models[0].means_, models[1].means_)
    alone = StreamingGaussianMixture(4, random_state=0, n_epochs=2).fit(x)
    assert models[0].score(x) > alone.score(x) - 0.05
    assert models[0].partial_fit(x[:3000]).n_samples_seen_ == 23_000
    with pytest.raises(ValueError, match="sample_weight does not combine with engine"):
        models[0].fit(x, sample_weight=np.ones(len(x)))


class TestScores:
    def job(self, rows: Path, folder: Path, contamination: float = 0.01) -> ScoreJob:
        model = folder / "model.safetensors"
        if not model.exists():
            go(start(folder, rows, LocalCluster(2)))
        return ScoreJob(
            model.read_bytes(), lambda **options: open_source(str(rows), **options), folder / "s", contamination
        )

    def test_parts_are_the_scores_of_one_machine(self, rows: Path, tmp_path: Path) -> None:
        pq = pytest.importorskip("pyarrow.parquet")
        job = self.job(rows, tmp_path)
        found = list(score_parts(job, LocalCluster(2)))
        table = pq.read_table(sorted(job.out.glob("*.parquet")))
        assert sum(part["rows"] for part in found) == table.num_rows == 12_000
        np.testing.assert_array_equal(table["row"], np.arange(12_000))
        saved = load_model(tmp_path / "model.safetensors")
        expected = saved.trainer.mixture.scores(np.load(rows)).log_likelihood
        np.testing.assert_array_equal(table["log_likelihood"], expected)
        assert 0 < sum(part["anomalies"] for part in found) < 600

    def test_only_missing_parts_are_scored_again(self, rows: Path, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        job = self.job(rows, tmp_path)
        list(score_parts(job, LocalCluster(2)))
        part_file(job.out, 3).unlink()
        assert [part["part"] for part in score_parts(job, LocalCluster(5))] == [3]

    def test_a_folder_of_other_scores(self, rows: Path, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        list(score_parts(self.job(rows, tmp_path), LocalCluster(2)))
        with pytest.raises(StreamGMMError, match="holds other scores: contamination has changed"):
            list(score_parts(self.job(rows, tmp_path, 0.05), LocalCluster(2)))
        assert json.loads((tmp_path / "s" / "parts.json").read_text())["rows"] == 12_000
        np.save(rows, np.load(rows) + 1)  # as many rows of other data
        with pytest.raises(StreamGMMError, match="holds other scores: data has changed"):
            list(score_parts(self.job(rows, tmp_path), LocalCluster(2)))

    def test_parts_that_were_read_otherwise_are_not_mixed(self, rows: Path, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        job = self.job(rows, tmp_path)
        list(score_parts(job, LocalCluster(2)))
        with pytest.raises(StreamGMMError, match="holds other scores: reading has changed"):
            list(score_parts(replace(job, reading={"skip_bad": True}), LocalCluster(2)))
