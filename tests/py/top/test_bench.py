"""The folder bench/: the annotations that it makes, its runner, measurements, tables and plots."""

import importlib
import json
import os
import pathlib
import pickle
import re
import sys

import pytest
import waiting

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"

if not BENCH.exists():
    pytest.skip("bench/ is not here", allow_module_level=True)

REAL = [
    {
        "segmentation": [[10.25, 20.5, 110.75, 20.5, 60.0, 220.31], [5.0, 5.0, 9.5, 5.0, 9.5, 9.0]], "area": 1.5,
        "iscrowd": 0, "image_id": 1, "bbox": [5.0, 5.0, 105.75, 215.31], "category_id": 3, "id": 7
    },
    {
        "segmentation": {"counts": [100, 5, 20, 6, 30], "size": [7, 23]}, "area": 11, "iscrowd": 1, "image_id": 2,
        "bbox": [1, 2, 30, 40], "category_id": 1, "id": 900100000002
    }
]  # fmt: skip


@pytest.fixture
def bench(monkeypatch):
    """Imports a module of bench/."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def test_made_annotations_are_like_real_ones(bench):
    coco = bench("coco")
    annotations = list(coco.annotations(REAL, 2000))
    assert annotations == list(coco.annotations(REAL, 2000))
    assert list(annotations[0]) == list(REAL[0]) and len(set(map(json.dumps, annotations))) == 2000
    polygons = [annotation for annotation in annotations if not annotation["iscrowd"]]
    assert len({json.dumps(annotation["segmentation"]) for annotation in polygons}) == len(polygons)
    for annotation in polygons:
        assert [len(ring) for ring in annotation["segmentation"]] == [6, 6]
        flat = [value for ring in annotation["segmentation"] for value in ring]
        assert all(type(value) is float and round(value, 2) == value and 0 <= value <= coco.SIDE for value in flat)
        left, top, width, height = annotation["bbox"]
        xs, ys = flat[0::2], flat[1::2]
        assert (left, top) == (min(xs), min(ys))
        assert (width, height) == (round(max(xs) - left, 2), round(max(ys) - top, 2))
        assert type(annotation["area"]) is float
    assert coco._shoelace([600.0, 610.0, 600.0], [400.0, 400.0, 420.0]) == 100.0
    ids = [annotation["id"] for annotation in polygons]
    assert ids == sorted(set(ids)) and annotation["image_id"] != REAL[0]["image_id"]


def test_made_crowds_keep_their_size(bench):
    coco = bench("coco")
    crowds = [annotation for annotation in coco.annotations(REAL, 500) if annotation["iscrowd"]]
    assert len(set(map(json.dumps, crowds))) > 100
    for crowd in crowds:
        counts = crowd["segmentation"]["counts"]
        assert sum(counts) == 161 and min(counts) >= 0 and crowd["area"] == sum(counts[1::2]) and crowd["id"] > 2**32
        assert all(type(value) is int for value in [*counts, *crowd["bbox"], crowd["area"]])


def test_tables_print_sizes_as_the_package_does(bench):
    output = bench("output")
    cells = [output.cell(key, 1536) for key in ("store", "uss_over_stub_max", "records")]
    assert cells == ["1.54 kB", "1.54 kB", "1,536"]
    assert output.cell("peak_beyond_store", -5_000_000) == "-5 MB"
    assert output.cell("uss", [700, None]) == "700 B "


def test_the_runner(tmp_path):
    path = tmp_path / "results.json"
    command = [sys.executable, str(BENCH / "run.py"), "handle", "import", "name", "--quick", "--json", str(path)]
    env = {**os.environ, "RECSTORE_DATA": str(tmp_path / "none"), "RECSTORE_DIR": str(tmp_path)}
    done = waiting.run(command, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    results = json.loads(path.read_text())
    assert set(results["suites"]) == {"handle", "import", "attach", "wait"}
    assert results["machine"]["versions"]["recstore"]
    calls = {row["call"] for row in results["suites"]["attach"]}
    assert calls == {"attach(name)", "shared(name, build)", "pickle.loads(handle)"}


def test_missing_data_is_skipped(tmp_path):
    path = tmp_path / "results.json"
    command = [
        sys.executable, str(BENCH / "run.py"), "decode", "size", "build", "scale", "--data", "tang", "--quick",
        "--json", str(path)
    ]  # fmt: skip
    code = "import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, sys.argv[0].rsplit('/', 1)[0])\n"
    code += "import scale; scale.KINDS = ('coco',)\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    env = {**os.environ, "RECSTORE_DATA": str(tmp_path / "none")}
    done = waiting.run([command[0], "-c", code, *command[1:]], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    results = json.loads(path.read_text())
    assert results["suites"] == {}
    assert {"decode of tang", "size of tang", "build of tang", "scale"} <= set(results["skipped"])


class FewRecords:
    """A data set like those of bench/data.py."""

    name, note = "few", "made"

    def __len__(self):
        return 300

    def fresh(self):
        return ({"id": i, "name": f"img_{i:05}.jpg", "half": i / 2} for i in range(300))


def test_builds_are_compared_with_pickling(bench):
    builds = bench("builds")
    rows = builds.measure(FewRecords(), True, 200, lambda text: None)
    cores = {row["cores"] for row in rows}
    assert {row["records"] for row in rows} == {200} and (1 in cores or not hasattr(os, "sched_setaffinity"))
    from_list = {row["way"]: row for row in rows if row["from"] == "list" and row["cores"] == max(cores)}
    from_stream = {row["way"] for row in rows if row["from"] == "stream"}
    assert set(from_list) | {"the stream itself"} == from_stream
    levels = {"recstore none", "recstore fast", "recstore", "recstore small"}
    assert {"pickles joined", "numpy+pickle", *levels} <= set(from_list)
    assert from_list["pickles joined"]["wall_of_leanest"] == from_list["pickles joined"]["cpu_of_leanest"] == 1
    assert all(0 < row["wall_min_ns"] <= row["wall_median_ns"] for row in rows)
    assert all(0 < row["cpu_min_ns"] <= row["cpu_median_ns"] for row in rows)
    pickles = [pickle.dumps(record, -1) for record in FewRecords().fresh()]
    assert builds.pickles_joined(FewRecords().fresh()) == b"".join(pickles)


def test_forms_are_left_out_one_at_a_time(bench):
    rows = bench("forms").measure(FewRecords(), 300, lambda text: None)
    assert {"struct", "int", "concat", "digits"} <= {row["node"] for row in rows}
    concat = next(row for row in rows if row["node"] == "concat")
    assert concat["without"] > concat["bytes_per_record"] and concat["growth"] > 0


def results(suites):
    machine = {"cpu": "a", "cores": 2, "kernel": "6", "python": "3", "date": "2026-01-01"}
    return {name: (rows, machine, "r.json") for name, rows in suites.items()}


def test_tables_fill_their_places(bench):
    tables = bench("tables")
    row = {
        "data": "coco", "records": 1000, "bytes": 5.25, "build_min_ns": 1234.5, "build_cpu_min_ns": 1300.0,
        "random_median_ns": 88.8
    }  # fmt: skip
    rows = [
        {**row, "rival": rival} for rival in ("recstore", "recstore none", "recstore fast", "recstore small", "msgspec")
    ]
    rows += [{**row, "rival": "Vortex", "bytes": 10.5, "random_median_ns": None}]
    rows += [{"data": "coco", "records": 1000, "rival": "floor", "random_median_ns": 50.0}]
    page = "".join(f"{name}\n<!-- table {name} -->\nold\n<!-- end -->\n" for name in tables.TABLES)
    new = tables.filled(page, results({"everything": rows}))
    assert "| coco | **recstore** | 5.2 | 1,234 | 88.8 |" in new and "| coco | Vortex | 10.5 | 1,234 | - |" in new
    assert "floor" not in new and "| coco | 1,000 | 5.2 | 10.5 | - | 5.2 | 0.50 | - |" in new
    assert "| coco | 5.2 / 5.2 / 5.2 / 5.2 | 1,234 / 1,234 / 1,234 / 1,234 |" in new
    assert "build\n<!-- table build -->\nold\n<!-- end -->" in new, "without results a place stays as it is"
    assert new.count("[results](../bench/results/r.json)") == 3
    assert tables.filled(new, results({"everything": rows})) == new
    forms = [
        {"data": "coco", "node": node, "bytes_per_record": 4.0, "growth": by}
        for node, by in (("int", 0.5), ("str", -0.01))
    ]
    assert "| data | bytes per record | int | str |" in tables.filled(page, results({"forms": forms}))
    assert "| coco | 4.0 | +50.0 | -1.0 |" in tables.filled(page, results({"forms": forms}))


def test_the_table_of_builds(bench):
    tables = bench("tables")
    row = {
        "data": "tang", "wall_median_ns": 100.0, "wall_of_leanest": 0.5, "cpu_of_leanest": 0.75,
        "wall_of_numpy_pickle": 0.25
    }  # fmt: skip
    rows = [
        {**row, "from": source, "cores": cores, "way": way}
        for source, cores in (("list", 2), ("stream", 2), ("list", 1))
        for way in ("pickles joined", "recstore")
    ]
    assert "| tang | 100 | 100 | 0.50 | 0.75 | 0.50 | 0.50 | 0.25 | 0.25 |" in tables.build(rows)
    assert "| tang | 100 | 100 | 0.50 | 0.75 | 0.50 | - | 0.25 | - |" in tables.build(rows[-2:]), (
        "a machine with one core"
    )


def test_the_tables_of_the_pages_match_their_results(bench):
    """tables.py makes each table again from the results that the page names beside it."""
    tables = bench("tables")
    for page in tables.PAGES:
        text = (BENCH.parent / page).read_text()
        for name in tables.TABLES:
            begin = text.find(f"<!-- table {name} -->")
            if begin < 0 or text.startswith("<!-- end -->", text.index("\n", begin) + 1):
                continue
            named = re.search(
                r"\[results\]\(\.\./bench/results/([^)]*)\)", text[begin : text.index("<!-- end -->", begin)]
            )
            assert named, f"{page} has no results for its table {name}"
            results = json.loads((BENCH / "results" / named[1]).read_text())
            suites = {suite: (rows, results["machine"], named[1]) for suite, rows in results["suites"].items()}
            only = {tables.TABLES[name][0]: suites[tables.TABLES[name][0]]}
            assert tables.filled(text, only)[begin:].startswith(text[begin : text.index("<!-- end -->", begin)])


@pytest.fixture
def plots(bench):
    pytest.importorskip("matplotlib")
    plots = bench("plots")
    yield plots
    plots.pyplot.close("all")


def draw_figures(plots, suite):
    """Draws and returns the figures of a suite of the committed results."""
    rows = json.loads((BENCH / "results/2026-11-21-compression.json").read_text())["suites"][suite]
    figures = [figure for _, figure in plots.DRAW[suite](rows)]
    for figure in figures:
        figure.canvas.draw()
    return figures


@pytest.mark.parametrize("suite", ["decode", "size", "scale"])
def test_tick_labels_do_not_overlap_and_curves_are_drawn_whole(plots, suite):
    for axis in (axis for figure in draw_figures(plots, suite) for axis in figure.axes if axis.get_visible()):
        labels = [*axis.get_xticklabels(which="both")]
        low, high = axis.get_xlim()
        shown = [label for label in labels if label.get_text() and low <= label.get_position()[0] <= high]
        boxes = sorted((label.get_window_extent() for label in shown), key=lambda box: box.x0)
        assert boxes, axis.get_title(loc="left")
        assert all(left.x1 < right.x0 for left, right in zip(boxes, boxes[1:])), axis.get_title(loc="left")
        low, high = axis.get_ylim()
        to_data, to_pixels = axis.transData.inverted().transform, axis.transData.transform
        for line in axis.lines if suite == "scale" else ():
            # The marker and the width of the line extend above the point.
            top = to_data(to_pixels((1, max(line.get_ydata()))) + [0, line.get_markersize()])[1]
            assert low <= min(line.get_ydata()) and top <= high, axis.get_title(loc="left")


def test_plots(plots, tmp_path, monkeypatch):
    names = "2026-11-21-compression", "2026-11-22-compression", "2026-11-22-workers"
    results = [str(BENCH / f"results/{name}.json") for name in names]
    monkeypatch.setattr(sys, "argv", ["plots.py", *results, "--out", str(tmp_path)])
    plots.main()
    made = {path.stem for path in tmp_path.iterdir()}
    assert made >= {"size", "decode-random", "decode-hot", "decode-batch", "workers", "scale", "build-list"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
