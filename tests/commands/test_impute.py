"""``streamgmm impute``, and training with covariances that couple features."""

from __future__ import annotations

import csv
import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from tests.commands.command_line import streamgmm


@pytest.fixture(scope="module")
def sensors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sensors that depend on each other, a comment, and a run that has learned them."""
    folder = tmp_path_factory.mktemp("sensors")
    rng = np.random.default_rng(0)
    level = rng.normal(20, 3, 3000)
    rows = np.column_stack([level, 2 * level + rng.normal(0, 0.1, 3000), rng.normal(5, 1, 3000)])
    lines = ["time,flow,pressure,noise,load"]
    lines += [f"t{i},{a:.4f},{b:.4f},{c:.4f},{i % 7}" for i, (a, b, c) in enumerate(rows)]
    (folder / "all.csv").write_text("\n".join(lines))
    gaps = ["time,flow,pressure,noise,load", "a,20.5,,5.0,3", "b,,50.0,4.0,1", "c,21.0,42.1,6.0,2"]
    (folder / "gaps.csv").write_text("\n".join(gaps) + "\n")
    streamgmm(
        "train", str(folder / "all.csv"), "--id", "time", "--columns", "flow,pressure,noise", "--covariance", "full",
        "--components", "2", "--out", str(folder / "run"),
    )  # fmt: skip
    return folder


def test_gaps_are_filled_and_everything_else_stays(sensors: Path) -> None:
    out = sensors / "complete.csv"
    done = streamgmm("impute", str(sensors / "run"), str(sensors / "gaps.csv"), "--id", "time", "--out", str(out))
    assert "3 rows completed" in done.words
    lines = [line.split(",") for line in out.read_text().splitlines()]
    assert lines[0] == ["time", "flow", "pressure", "noise", "load"]
    assert [line[0] for line in lines[1:]] == ["a", "b", "c"]
    assert float(lines[1][2]) == pytest.approx(41.0, abs=0.3)
    assert float(lines[2][1]) == pytest.approx(25.0, abs=0.3)
    assert [float(v) for v in lines[3][1:]] == [21.0, 42.1, 6.0, 2.0]
    assert [float(line[4]) for line in lines[1:]] == [3.0, 1.0, 2.0]


def test_a_whole_column_is_predicted_from_the_others(sensors: Path) -> None:
    (sensors / "empty.csv").write_text("time,flow,pressure,noise\na,20.5,,5.0\nb,25.0,,4.0\n")
    done = streamgmm("impute", str(sensors / "run"), str(sensors / "empty.csv"), "--id", "time")
    found = [float(line.split(",")[2]) for line in done.stdout.splitlines()[1:]]
    np.testing.assert_allclose(found, [41.0, 50.0], atol=0.3)


def test_ndjson_goes_to_standard_output(sensors: Path) -> None:
    done = streamgmm("impute", str(sensors / "run"), str(sensors / "gaps.csv"), "--id", "time", "--json", "--quiet")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["time"] for row in rows] == ["a", "b", "c"]
    assert rows[1]["flow"] == pytest.approx(25.0, abs=0.3)


def test_the_run_has_full_covariances_and_pictures_of_them(sensors: Path) -> None:
    model = StreamingGaussianMixture.load(sensors / "run" / "model.safetensors")
    assert model.covariances_.shape == (2, 3, 3)
    done = streamgmm("plot", str(sensors / "run"), "--json")
    assert any(name.endswith("directions.png") for name in json.loads(done.stdout))


def test_mistakes_are_said_in_one_line(sensors: Path) -> None:
    wrong = streamgmm(
        "train", str(sensors / "all.csv"), "--covariance", "tied", "--out", str(sensors / "no"), fails=True
    )
    assert "--covariance is 'tied'; expected 'full' or 'low_rank', which give each component" in wrong.words
    same = streamgmm(
        "impute", str(sensors / "run"), str(sensors / "gaps.csv"), "--out", str(sensors / "gaps.csv"), fails=True
    )
    assert "would overwrite the input" in same.words
    StreamingGaussianMixture(2).fit(np.eye(5)[:, :2]).save(sensors / "narrow.safetensors")
    wide = streamgmm("impute", str(sensors / "narrow.safetensors"), str(sensors / "gaps.csv"), fails=True)
    assert "rows of gaps.csv have 4 features; the model has 2." in wide.words


class TestOtherColumns:
    """Columns that the model does not know stay as they are, in their place."""

    HEADING = ("time", "flow", "site", "pressure", "open", "noise", "postcode", "count")
    ROWS = (
        ("2024-03-01 00:00:00", 20.5, "=SUM(A1)", None, True, 5.0, "01067", 7),
        ("2024-03-01 00:01:00", None, "Köln, west", 50.0, False, 4.0, "10115", 1700000000123456789),
        ("2024-03-01 00:02:00", 21.0, "-", 42.1, True, 6.0, "", 0),
    )

    def write(self, folder: Path, suffix: str) -> str:
        path = folder / f"other{suffix}"
        if suffix in (".csv", ".tsv", ".euro.csv"):
            with path.open("w", newline="", encoding="utf8") as file:
                mark = {".csv": ",", ".tsv": "\t", ".euro.csv": ";"}[suffix]
                lines = csv.writer(file, delimiter=mark)
                rows = [self.HEADING, *self.ROWS]
                if mark == ";":
                    rows = [[str(v).replace(".", ",") if isinstance(v, float) else v for v in row] for row in rows]
                lines.writerows(rows)
        elif suffix == ".ndjson":
            rows = [dict(zip(self.HEADING, row, strict=True)) for row in self.ROWS]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
            import pyarrow.feather as pf
            import pyarrow.parquet as pq

            columns = dict(zip(self.HEADING, map(list, zip(*self.ROWS, strict=True)), strict=True))
            columns["time"] = [datetime.fromisoformat(t) for t in columns["time"]]
            pq.write_table(pa.table(columns), path) if suffix == ".parquet" else pf.write_feather(
                pa.table(columns), path
            )
        return str(path)

    @pytest.mark.parametrize("suffix", [".csv", ".tsv", ".euro.csv", ".ndjson", ".parquet", ".arrow"])
    @pytest.mark.parametrize("options", [(), ("--id", "time")])
    def test_every_format_becomes_csv(self, sensors: Path, tmp_path: Path, suffix: str, options: tuple[str]) -> None:
        streamgmm(
            "impute", str(sensors / "run"), self.write(tmp_path, suffix), "--out", "o.csv", *options, folder=tmp_path
        )
        with (tmp_path / "o.csv").open(newline="", encoding="utf8") as file:
            heading, *rows = csv.reader(file)
        assert tuple(heading) == self.HEADING
        columns = dict(zip(heading, zip(*rows, strict=True), strict=True))
        assert list(columns["time"]) == [row[0] for row in self.ROWS]
        assert columns["site"] == ("'=SUM(A1)", "Köln, west", "'-")  # which a spreadsheet would compute
        assert columns["open"] == ("True", "False", "True")
        assert columns["postcode"] == ("01067", "10115", "")
        assert columns["count"] == ("7", "1700000000123456789", "0")
        assert float(columns["pressure"][0]) == pytest.approx(41.0, abs=0.3)
        assert float(columns["flow"][1]) == pytest.approx(25.0, abs=0.3)
        assert list(map(float, rows[2][1:6:2])) == [21.0, 42.1, 6.0]

    @pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
    def test_every_format_becomes_ndjson(self, sensors: Path, tmp_path: Path, suffix: str) -> None:
        done = streamgmm("impute", str(sensors / "run"), self.write(tmp_path, suffix), "--json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert [tuple(row) for row in rows] == [self.HEADING] * 3
        assert [row["site"] for row in rows] == ["=SUM(A1)", "Köln, west", "-"]
        assert [row["count"] for row in rows] == [7, 1700000000123456789, 0]
        if suffix != ".csv":
            assert [row["open"] for row in rows] == [True, False, True]

    @pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
    def test_every_format_becomes_parquet(self, sensors: Path, tmp_path: Path, suffix: str) -> None:
        pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        streamgmm("impute", str(sensors / "run"), self.write(tmp_path, suffix), "--out", "o.parquet", folder=tmp_path)
        table = pq.read_table(tmp_path / "o.parquet")
        assert tuple(table.schema.names) == self.HEADING
        assert table["count"].to_pylist() == [7, 1700000000123456789, 0]
        assert table["postcode"].to_pylist() == ["01067", "10115", ""]
        if suffix == ".parquet":
            before = pq.read_schema(tmp_path / "other.parquet")
            assert [f.type for f in table.schema] == [f.type for f in before]

    def test_formulas_are_kept_on_request(self, sensors: Path, tmp_path: Path) -> None:
        done = streamgmm("impute", str(sensors / "run"), self.write(tmp_path, ".csv"), "--formulas")
        assert [row[2] for row in csv.reader(done.stdout.splitlines())] == ["site", "=SUM(A1)", "Köln, west", "-"]

    def test_rows_that_are_skipped_take_their_text_along(self, sensors: Path, tmp_path: Path) -> None:
        path = Path(self.write(tmp_path, ".csv"))
        path.write_text(path.read_text().replace("50.0", "broken"))
        done = streamgmm("impute", str(sensors / "run"), str(path), "--bad-rows", "skip")
        assert [row[6] for row in csv.reader(done.stdout.splitlines())] == ["postcode", "01067", ""]

    CODES = (
        {"id": 9007199254740993, "postcode": "01067", "ok": True, "x": 3, "y": 6.5},
        {"id": 2, "postcode": "10115", "ok": False, "x": 4, "y": None},
        {"id": None, "postcode": "03131", "ok": True, "x": 5, "y": 10.5},
    )

    @pytest.mark.parametrize("suffix", [".csv", ".euro.csv", ".ndjson", ".parquet"])
    def test_features_that_are_present_keep_their_form(self, tmp_path: Path, suffix: str) -> None:
        """Large integers, codes with leading zeros, and booleans, of which a model may learn the numbers."""
        names, path = list(self.CODES[0]), tmp_path / f"codes{suffix}"
        x = np.random.default_rng(0).normal([5, 10_000, 0.5, 4, 8], 1, (400, 5))
        np.savetxt(tmp_path / "past.csv", x, delimiter=",", header=",".join(names), comments="")
        streamgmm("train", "past.csv", "--components", "2", "--out", "run", folder=tmp_path)
        if suffix == ".parquet":
            pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
            import pyarrow.parquet as pq

            rows = [{**row, "postcode": int(row["postcode"])} for row in self.CODES]
            pq.write_table(pa.Table.from_pylist(rows), path)
        elif suffix == ".ndjson":
            path.write_text("".join(json.dumps(row) + "\n" for row in self.CODES))
        else:
            mark, point = (";", ",") if suffix == ".euro.csv" else (",", ".")
            rows = [["" if v is None else str(v).replace(".", point) for v in row.values()] for row in self.CODES]
            path.write_text("\n".join(mark.join(row) for row in [names, *rows]) + "\n")
        done = streamgmm("impute", "run", path.name, folder=tmp_path)
        first, second, third = list(csv.DictReader(done.stdout.splitlines()))
        code = "1067" if suffix == ".parquet" else "01067"
        assert first == {"id": "9007199254740993", "postcode": code, "ok": "True", "x": "3", "y": "6.5"}
        assert [second[name] for name in ("id", "ok", "x")] == ["2", "False", "4"]
        assert float(second["y"]) != 0
        assert float(third["id"]) != 0
