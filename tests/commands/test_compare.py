"""Comparing the defaults with scikit-learn: units, noise, files, figures, and what is kept when it is interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.comparison import plan, streams
from streamgmm.comparison.contenders import CANDIDATES, fit_validated
from streamgmm.comparison.dequantisation import dequantise
from streamgmm.comparison.origins import find_origin, load_raw
from streamgmm.comparison.sample_set import SampleSet
from tests.commands.command_line import invoke, streamgmm

FAST = ("--components", "2", "--splits", "2", "--seeds", "1", "--jobs", "1")


def write_csv(path: Path, x: np.ndarray, heading: str = "", more: str = "") -> None:
    lines = [",".join(map(repr, row)) + more for row in x.tolist()]
    path.write_text("\n".join([*([heading] if heading else []), *lines]) + "\n")


def table_of(n: int = 160, seed: int = 0) -> np.ndarray:
    """Two clusters in units of their own, and a column of counts."""
    rng = np.random.default_rng(seed)
    which = rng.integers(2, size=n)
    return np.c_[rng.normal(30 * which, 4), rng.normal(which - 0.5, 0.2) / 1000, rng.poisson(3 + 20 * which)]


def compare(folder: Path, *arguments: object) -> dict[str, Any]:
    """Return what the command prints as JSON."""
    return json.loads(streamgmm("compare", *arguments, "--json", folder=folder).stdout)


def figures(report: dict[str, Any]) -> list[float]:
    return [m[key] for m in report["measurements"] for key in ("ours", "theirs")]


def cells(report: dict[str, Any], *without: str) -> list[list[Any]]:
    """Return the cells of all tables, but for seconds."""
    return [
        [cell for name, cell in zip(table["columns"], row, strict=True) if name not in ("s", *without)]
        for table in report["tables"]
        for row in table["rows"]
    ]


class TestUnits:
    def test_both_are_in_standardised_units_of_the_training_part(self, tmp_path: Path) -> None:
        x = np.random.default_rng(0).normal([5.0, -2000.0], [0.01, 300.0], (400, 2))
        write_csv(tmp_path / "x.csv", x)
        report = compare(tmp_path, "x.csv", "--components", 2, "--splits", 1, "--seeds", 1, "--jobs", 1)
        samples = load_raw(find_origin(str(tmp_path / "x.csv")))
        train, test = (samples.rows[part] for part in samples.split(0))
        np.testing.assert_array_equal(np.sort(np.r_[train, test], axis=0), np.sort(x, axis=0))
        scaler = StandardScaler().fit(train)
        ours = StreamingGaussianMixture(2, random_state=0).fit(train).score_samples(test).mean()
        theirs = fit_validated(scaler.transform(train), 2, 0)
        [found] = report["measurements"]
        assert found["ours"] == pytest.approx(ours + np.log(train.std(axis=0)).sum())
        assert found["theirs"] == pytest.approx(theirs.model.score(scaler.transform(test)))
        assert found["reg_covar"] == theirs.reg_covar
        one_gaussian = -0.5 * np.log(2 * np.pi) * 2 - 0.5 * (scaler.transform(test) ** 2).sum(axis=1).mean()
        assert found["ours"] == pytest.approx(one_gaussian, abs=0.1)
        assert found["theirs"] == pytest.approx(one_gaussian, abs=0.1)

    @pytest.mark.parametrize("factor", [1000.0, 2.0**-20])
    def test_other_units_change_no_figure(self, tmp_path: Path, factor: float) -> None:
        write_csv(tmp_path / "x.csv", table_of())
        write_csv(tmp_path / "y.csv", factor * table_of())
        x, y = (compare(tmp_path, name, *FAST) for name in ("x.csv", "y.csv"))
        assert figures(y) == pytest.approx(figures(x), abs=1e-6)
        assert cells(x, "data") == cells(y, "data")
        assert len(cells(x)) == 1

    def test_reg_covar_is_the_best_of_the_validation(self) -> None:
        rng = np.random.default_rng(0)
        x = StandardScaler().fit_transform(rng.normal(size=(60, 8)))
        found = fit_validated(x, 8, seed=1)
        assert found.reg_covar == max(CANDIDATES)  # noise: the smoothest one
        expected = GaussianMixture(8, covariance_type="diag", reg_covar=max(CANDIDATES), random_state=1).fit(x)
        np.testing.assert_array_equal(found.model.means_, expected.means_)


class TestDequantisation:
    def samples(self) -> SampleSet:
        rng = np.random.default_rng(0)
        columns = [rng.normal(size=300), rng.poisson(5, 300), np.full(300, 7.0), rng.integers(9, size=300) / 10]
        return SampleSet("t", np.stack(columns, axis=1), ["real", "count", "still", "tenths"])

    def test_columns(self) -> None:
        before, after = self.samples(), dequantise(self.samples())
        assert after.columns == ["real", "count", "tenths"]
        assert after.notes == ("constant, left out: still", "discrete, dequantised: count, tenths")
        added = after.rows - before.rows[:, [0, 1, 3]]
        assert (added[:, 0] == 0).all()
        for column, step in ((1, 1.0), (2, 0.1)):
            assert added[:, column].min() >= 0
            assert added[:, column].max() < step
            assert added[:, column].mean() == pytest.approx(step / 2, rel=0.1)

    def test_it_is_the_same_every_time(self) -> None:
        np.testing.assert_array_equal(dequantise(self.samples()).rows, dequantise(self.samples()).rows)

    def test_both_models_get_the_same_rows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = {}

        def spy(model: type, name: str) -> None:
            fit = model.fit
            monkeypatch.setattr(model, "fit", lambda self, X, *a: (seen.update({name: X}), fit(self, X, *a))[1])

        spy(StreamingGaussianMixture, "ours")
        spy(GaussianMixture, "theirs")  # the last fit is that of all training rows
        write_csv(tmp_path / "x.csv", table_of())
        compare(tmp_path, "x.csv", "--components", 2, "--splits", 1, "--seeds", 1, "--jobs", 1)
        np.testing.assert_allclose(StandardScaler().fit_transform(seen["ours"]), seen["theirs"])
        counts = seen["ours"][:, 2]
        assert len(np.unique(counts)) == len(counts)


class TestFiles:
    def test_text_and_gaps_are_named_and_left_out(self, tmp_path: Path) -> None:
        x = table_of(100)
        lines = [f"m{i % 7},{a!r},{b!r},{c!r}" for i, (a, b, c) in enumerate(x.tolist())]
        lines[5], lines[9] = "m1,,1.0,2.0", "m1,NA,1.0,2.0"
        (tmp_path / "x.csv").write_text("\n".join(["machine,a,b,c", *lines]))
        report = compare(tmp_path, "x.csv", *FAST)
        assert report["notes"] == [
            "x.csv: no numbers, left out: machine; 2 rows with gaps or infinite values, left out; "
            "discrete, dequantised: c."
        ]
        [about] = report["sets"]
        assert (about["rows"], about["features"], about["train"]) == (98, 3, 74)
        assert len(report["measurements"]) == 2

    def test_a_column_of_classes(self, tmp_path: Path) -> None:
        x = table_of(120)
        lines = [f"{a!r},{'ab'[c > 13]},{b!r}" for a, b, c in x.tolist()]
        (tmp_path / "x.csv").write_text("\n".join(["u,kind,v", *lines]))
        report = compare(tmp_path, "x.csv", "--label", "kind", *FAST)
        assert report["notes"] == []
        ranks = [m for m in report["measurements"] if m["block"] == "anomalies"]
        assert len(ranks) == 2
        assert all(m["ours"] > 0.99 for m in ranks)  # clusters are far apart
        assert [table["title"] for table in report["tables"]] == ["Density", "Anomaly ranking"]

    def test_a_single_class_is_said(self, tmp_path: Path) -> None:
        lines = [f"{a!r},a,{b!r}" for a, b, _ in table_of(60).tolist()]
        (tmp_path / "x.csv").write_text("\n".join(["u,kind,v", *lines]))
        report = compare(tmp_path, "x.csv", "--label", "kind", *FAST)
        assert report["notes"] == ["x.csv: a single class, no anomaly ranking."]
        assert {m["block"] for m in report["measurements"]} == {"density"}

    def test_row_numbers_of_pandas_are_left_out_and_booleans_are_not(self, tmp_path: Path) -> None:
        lines = [f"{i},{a!r},{b > 0},{b!r}" for i, (a, b, _) in enumerate(table_of(60).tolist())]
        (tmp_path / "x.csv").write_text("\n".join([",u,on,v", *lines]))
        report = compare(tmp_path, "x.csv", *FAST)
        assert report["sets"][0]["features"] == 3
        assert "row numbers in a first column without a name, left out" in report["notes"][0]

    def test_targets_are_no_classes(self, tmp_path: Path) -> None:
        x = table_of(60)
        np.savez(tmp_path / "x.npz", x=x, y=x[:, 0])
        report = compare(tmp_path, "x.npz", *FAST)
        assert {m["block"] for m in report["measurements"]} == {"density"}
        assert "labels with 60 values for 60 rows, not taken for classes" in report["notes"][0]

    def test_without_a_heading(self, tmp_path: Path) -> None:
        write_csv(tmp_path / "x.csv", table_of(60), more=",text")
        report = compare(tmp_path, "x.csv", *FAST)
        assert report["sets"][0]["rows"] == 60
        assert "no numbers, left out: 3" in report["notes"][0]

    def test_a_split_that_exists_is_kept(self, tmp_path: Path) -> None:
        x = table_of(150)
        np.savez(tmp_path / "x.npz", x_train=x[:110], x_test=x[110:])
        [about] = compare(tmp_path, "x.npz", *FAST)["sets"]
        assert (about["rows"], about["train"], about["splits"]) == (150, 110, 1)
        train, test = load_raw(find_origin(str(tmp_path / "x.npz"))).split(0)
        assert (train.tolist(), test.tolist()) == ([*range(110)], [*range(110, 150)])

    def test_formats_agree(self, tmp_path: Path) -> None:
        x = table_of(80)
        write_csv(tmp_path / "a.csv", x, "u,v,w")
        np.save(tmp_path / "b.npy", x)
        np.savez(tmp_path / "c.npz", x=x, other=x[:5])
        np.savez(tmp_path / "d.npz", first=x)
        found = compare(tmp_path, *(f"{name}" for name in ("a.csv", "b.npy", "c.npz", "d.npz")), *FAST)
        by_file = {m["subject"]: [] for m in found["measurements"]}
        for m in found["measurements"]:
            by_file[m["subject"]].append((m["ours"], m["theirs"]))
        assert list(by_file) == ["a.csv", "b.npy", "c.npz", "d.npz"]
        assert all(values == by_file["a.csv"] for values in by_file.values())

    def test_fewer_rows(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", table_of(500))
        report = compare(tmp_path, "x.npy", "--rows", 100, *FAST)
        assert report["sets"][0]["rows"] == 100
        assert "100 of 500 rows" in report["notes"][0]

    def test_too_few_rows_for_some(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", table_of(40))
        report = compare(tmp_path, "x.npy", "--components", 2, "--components", 30, "--splits", 1, "--seeds", 1)
        assert {m["components"] for m in report["measurements"]} == {2}
        assert "too few rows for K = 30, not compared" in report["notes"][0]


class TestAnomalies:
    def test_the_class_held_out_is_ranked_among_new_rows(self) -> None:
        x, y = load_iris(return_X_y=True)
        samples = load_raw(find_origin("iris"))
        in_test = np.isin(np.arange(len(x)), samples.split(0)[1])
        areas = []
        for held_out in range(3):
            odd = y == held_out
            model = StreamingAnomalyDetector(StreamingGaussianMixture(2, random_state=0))
            scores = model.fit(x[~odd & ~in_test]).score_samples(x[odd | in_test])
            areas.append(roc_auc_score(odd[odd | in_test], -scores))
        found = plan.measure(plan.Task("anomalies", find_origin("iris"), 2, 0, 0))
        assert found["ours"] == pytest.approx(np.mean(areas))
        assert found["theirs"] > 0.9


class TestStreams:
    def test_the_running_gaussian_knows_the_chunks_before(self) -> None:
        x = np.random.default_rng(0).normal(3.0, 2.0, (300, 2))
        found = streams.running_gaussian(x)
        assert np.isnan(found[:100]).all()
        mean, deviation = x[:200].mean(axis=0), x[:200].std(axis=0)
        z = (x[250] - mean) / deviation
        assert found[250] == pytest.approx(-0.5 * (z**2 + np.log(2 * np.pi * deviation**2)).sum())

    def test_drift_is_one_deviation_in_5000_rows(self) -> None:
        x = streams.drifting_rows(streams.Stream(3, 1), 20_000, 0)
        moved = np.abs(x[-2000:].mean(axis=0) - x[:2000].mean(axis=0)) / x[:2000].std(axis=0)
        np.testing.assert_allclose(moved, 18_000 / 5000, rtol=0.1)

    def test_the_command(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(streams, "OVERLAP_ROWS", 4000)
        monkeypatch.setattr(streams, "DRIFT_ROWS", 2000)
        report = compare(tmp_path, "overlap", "drift", "--components", 2, "--seeds", 1, "--jobs", 1)
        overlap, drift = report["tables"]
        assert [row[0] for row in overlap["rows"]] == [1, 2, 5]
        assert [row[:3] for row in drift["rows"]] == [[d, c, 2] for c in (1, 4) for d in (2, 10, 40)]
        gaps = [m["ours"] - m["theirs"] for m in report["measurements"] if m["block"] == "overlap"]
        assert np.abs(gaps).max() < 0.1
        assert [v.split(":")[0] for v in report["verdicts"]] == ["Overlapping clusters", "Drift"]


class TestReports:
    def test_processes_change_no_figure(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", table_of(60))
        one, two = (compare(tmp_path, "x.npy", *FAST, "--jobs", jobs) for jobs in (1, 2))
        assert figures(one) == figures(two)
        assert cells(one) == cells(two)

    @pytest.mark.parametrize("suffix", [".md", ".json"])
    def test_the_file_is_what_is_printed(self, tmp_path: Path, suffix: str) -> None:
        np.save(tmp_path / "x.npy", table_of(60))
        option = ["--json"] if suffix == ".json" else []
        done = streamgmm("compare", "x.npy", *FAST, "--out", f"r{suffix}", *option, folder=tmp_path)
        assert (tmp_path / f"r{suffix}").read_text(encoding="utf8") == done.stdout.removesuffix("\n")
        assert f"report in r{suffix}" in done.words

    def test_the_verdict_is_computed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def measure(task: plan.Task) -> dict[str, Any]:
            gap = {2: 0.5, 3: -0.05, 4: -0.1}[task.components] + 0.01 * task.split
            return {"ours": gap - 4.0, "theirs": -4.0, "our_seconds": 1.0, "their_seconds": 2.0}

        monkeypatch.setattr(plan, "measure", measure)
        np.save(tmp_path / "x.npy", table_of(60))
        chosen = [word for k in (2, 3, 4) for word in ("--components", k)]
        done = streamgmm("compare", "x.npy", *chosen, "--splits", 3, "--seeds", 1, "--jobs", 1, folder=tmp_path)
        assert "| x.npy | 60 × 3 | 2 | -4.000 | -3.490 | +0.510 ± 0.010 | -0.09 | better | 2.00, 1.00 |" in done.stdout
        assert "| 3 | -4.000 | -4.040 | -0.040 ± 0.010 | -0.09 | within |" in done.stdout
        assert "Density: 3 of 3 hold. The median difference is -0.040 nats: below 0." in done.stdout

    def test_an_interrupt_keeps_what_is_done(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        measure, done = plan.measure, []

        def interrupted(task: plan.Task) -> dict[str, Any]:
            if len(done) == 3:
                raise KeyboardInterrupt
            done.append(task)
            return measure(task)

        monkeypatch.setattr(plan, "measure", interrupted)
        np.save(tmp_path / "x.npy", table_of(60))
        arguments = ["x.npy", "--components", 2, "--splits", 5, "--seeds", 1, "--jobs", 1, "--out", "r.md"]
        ended = invoke("compare", *arguments, folder=tmp_path)
        assert ended.code == 130
        assert "interrupted after 3 of 5 measurements" in ended.words
        text = (tmp_path / "r.md").read_text(encoding="utf8")
        assert text.startswith("INCOMPLETE: 3 of 5 measurements")
        assert "| x.npy | 60 × 3 | 2 |" in text
        assert text in ended.stdout


class TestWords:
    def test_notes_are_said_once_and_one_is_one(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("\n".join(["a,b", *(f"{i}.5,w{i}" for i in range(60))]))
        arguments = ["x.csv", "--components", 2, "--splits", 1, "--seeds", 1, "--jobs", 1]
        done = invoke("compare", *arguments, folder=tmp_path)
        assert done.stdout.startswith("1 measurement; splits: 1")
        assert (done.stdout + done.words).count("no numbers, left out: b") == 1

    def test_nothing_to_compare_is_an_error_with_the_reason(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", table_of(60))
        done = invoke("compare", "x.npy", "--components", 50, folder=tmp_path)
        assert done.code == 1
        assert "there is nothing to compare. x.npy:" in done.words
        assert "too few rows for K = 50" in done.words


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nothing.csv"], "nothing.csv does not exist; expected a .csv, .npy or .npz file, or one of iris, wine"),
            (["words.csv"], "words.csv has no column of numbers"),
            (["few.csv"], "few.csv has 3 rows without gaps; expected at least 20"),
            (["empty.csv"], "empty.csv is empty"),
            (["damaged.npz"], "damaged.npz is not a valid NumPy file"),
            (["flat.npy"], "flat.npy contains float64 of shape (5,); expected numbers of shape (rows, features)"),
            (["iris", "--out", "r.txt"], "r.txt has an unsupported extension; expected .md or .json"),
            (["iris", "--out", "nowhere/r.md"], "nowhere is not a folder"),
            (["iris", "--label", "kind"], "--label is 'kind', but there is no file"),
            (["few.csv", "--label", "kind"], "few.csv has no column 'kind'"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_in_one_line(self, tmp_path: Path, arguments: list[str], message: str) -> None:
        (tmp_path / "words.csv").write_text("a,b\n" + "x,y\n" * 30)
        (tmp_path / "few.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
        (tmp_path / "empty.csv").write_text("")
        (tmp_path / "damaged.npz").write_text("no")
        np.save(tmp_path / "flat.npy", np.arange(5.0))
        done = streamgmm("compare", *arguments, folder=tmp_path, fails=True)
        assert message in done.words
        assert done.code == 1
