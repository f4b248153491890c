"""Reports: what a page says of runs, from their folders or lines (`page.py`, `runs.py`, `data.py`, `comparison.py`, `curves.py`).

Parts that need no page are in `test_report_parts.py`, what a reader sees of it in `test_report_browser.py`.
"""

import base64
import json
import re
from html.parser import HTMLParser

import pytest
from experiments.lines import make_line, write_results, write_run
from publishers import write_mnist

from orderless.experiments.report import data as report_data
from orderless.experiments.report import find_runs, write_report
from orderless.io.errors import DataError
from orderless.tasks.picture import draw_task
from orderless.tasks.registry import load_task

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SMALL = {"num_train": 60, "num_test": 30, "set_size": 20}


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def plain_picture(monkeypatch):
    """A picture takes a second to draw, and is looked at elsewhere: here any PNG will do."""

    def draw(_, path):
        path.write_bytes(base64.b64decode(PIXEL))
        return path

    monkeypatch.setattr(report_data, "draw_task", draw)


@pytest.fixture
def no_data(monkeypatch):
    """Most of a page needs no sets: opening them would only take time."""

    def refuse(*_, **__):
        raise DataError("cache", expected="prepared sets", found="none in this test")

    monkeypatch.setattr(report_data, "open_data", refuse)


class Text(HTMLParser):
    """What a reader reads, tags and attributes apart."""

    def __init__(self, page):
        super().__init__()
        self.words, self.tags, self.open = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words)).strip()


def report_on(tmp_path, *paths, **options):
    out = write_report(find_runs(paths), tmp_path / "page.html", **{"baselines": "none", **options})
    return Text(out.read_text())


def test_a_page_says_what_was_trained_and_how_good_it_is(tmp_path, no_data):
    page = report_on(tmp_path, write_run(tmp_path / "run", make_line(options={**SMALL, "epochs": 5}))).text
    assert page.startswith("Deep Sets++ 50 on Normal Var ")
    assert "Deep Sets++ with 50 layers (set norm, clean path) reached a test MSE of 0.0198" in page
    assert "95 % interval 0.0178 to 0.0218" in page
    assert "after 5 epochs on 60 training sets" in page
    assert "The paper reports 0.0198 ± 0.0041 for this network, with its own settings." in page


def test_a_page_is_whole_html_with_named_parts(tmp_path, no_data):
    found = report_on(tmp_path, write_results(tmp_path / "out", [make_line(options={"depth": n}) for n in (3, 50)]))
    assert found.open == []
    heads = [attrs for tag, attrs in found.tags if tag == "th"]
    assert all("scope" in attrs for attrs in heads)
    assert all(attrs.get("aria-label") or attrs.get("aria-hidden") for tag, attrs in found.tags if tag == "svg")
    assert sum(tag == "figure" for tag, _ in found.tags) == sum(tag == "figcaption" for tag, _ in found.tags) == 9


def test_a_page_needs_nothing_but_itself(tmp_path):
    found = report_on(tmp_path, write_run(tmp_path / "run", make_line(options=SMALL)), baselines="auto")
    page = (tmp_path / "page.html").read_text()
    loads = [attrs[name] for _, attrs in found.tags for name in ("src", "href") if name in attrs]
    assert loads, "there is a picture"
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in loads)
    assert not re.search(r"https?://|@import|url\(", page)
    (policy,) = [attrs["content"] for _, attrs in found.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_the_same_runs_give_the_same_page(tmp_path, monkeypatch):
    monkeypatch.setattr(report_data, "draw_task", draw_task)
    folder = write_run(tmp_path / "run", make_line(options=SMALL))
    pages = []
    for name in ("first.html", "second.html"):
        write_report(find_runs([folder]), tmp_path / name)
        pages.append((tmp_path / name).read_text())
    assert pages[0] == pages[1]


def test_reduced_settings_are_said_openly(tmp_path, no_data):
    page = report_on(tmp_path, write_run(tmp_path / "run", make_line(options={**SMALL, "width": 8, "learning_rate": 0.01}))).text
    assert (
        "Not the paper's settings: 60 of 10,000 training sets; 30 of 1,000 test sets; 20 of 1,000 elements; 5 of 50 epochs; "
        "width 8; learning rate 0.01." in page
    )


def test_the_papers_own_settings_need_no_warning(tmp_path, no_data):
    page = report_on(tmp_path, write_run(tmp_path / "run", make_line(epochs=50))).text
    assert "Not the paper's settings" not in page
    assert "The paper reports 0.0198 ± 0.0041 for this network." in page


def test_stand_in_data_are_said_openly(tmp_path, no_data):
    line = make_line("hematocrit@simulated", value=19.2, start=26)
    page = report_on(tmp_path, write_run(tmp_path / "run", line)).text
    assert "These are simulated data, not Flow-RBC" in page
    assert "The paper reports 19.2118 ± 0.0762 for this network on Flow-RBC" in page


def test_a_figure_that_two_tables_of_the_paper_share_comes_once(tmp_path, no_data):
    line = make_line("hematocrit@simulated", "deep_sets", {"depth": 50}, value=25.9, start=26)
    page = report_on(tmp_path, write_run(tmp_path / "run", line)).text
    assert "The paper reports 25.8791 ± 0.0014 for this network" in page


def test_a_network_that_the_paper_does_not_report_stands_beside_its_best(tmp_path, no_data):
    page = report_on(tmp_path, write_run(tmp_path / "run", make_line(options={"depth": 10}))).text
    assert (
        "The paper does not report this network; its best figure is 0.0023 ± 0.0006, Set Transformer 16 (non-clean path)" in page
    )


def test_baselines_stand_beside_the_run_with_the_constant_marked(tmp_path):
    folder = write_run(tmp_path / "run", make_line(options=SMALL))
    page = report_on(tmp_path, folder, baselines="auto").text
    constant, _, moments, *_ = json.loads((folder / "baselines.json").read_text())["results"]
    shown = f"{constant['value']:.2f} [{constant['low']:.2f}, {constant['high']:.2f}]"
    assert f"That is better than a constant that looks at no set ({shown})." in page
    assert f"It is better than the best simple model, “{moments['title']}” ({moments['value']:.3f} [" in page
    assert "Constant: looks at no set constant" in page, "a badge in the table"


def test_a_network_that_learnt_nothing_is_told_so(tmp_path):
    lines = [make_line(options={**SMALL, "depth": depth}, value=value) for depth, value in ((10, 9.5), (50, 0.02))]
    page = report_on(tmp_path, write_results(tmp_path / "out", lines), baselines="auto").text
    assert "No better than a constant: Deep Sets++ 10 (run 1)." in page
    assert "The best of 2 runs is Deep Sets++ with 50 layers" in page
    lines = [make_line(options={**SMALL, "depth": depth}, value=9.5) for depth in (10, 50)]
    page = report_on(tmp_path, write_results(tmp_path / "failed", lines), baselines="auto").text
    assert "No finished run is better than a constant." in page


def test_baselines_are_kept_and_not_fitted_twice(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", make_line(options=SMALL))
    first = report_on(tmp_path, folder, baselines="auto").text
    kept = json.loads((folder / "baselines.json").read_text())
    assert [row["name"] for row in kept["results"]] == ["constant", "rdw", "moments", "moments_boosted", "mean_embedding"]
    monkeypatch.setattr(report_data, "evaluate_baselines", lambda *_, **__: pytest.fail("fitted again"))
    assert report_on(tmp_path, folder, baselines="auto").text == first


@pytest.mark.parametrize("damage", ["{", "[]", '{"data": 1}', "other data"])
def test_kept_baselines_that_do_not_fit_are_made_again(tmp_path, damage):
    folder = write_run(tmp_path / "run", make_line(options=SMALL))
    right = report_on(tmp_path, folder, baselines="auto").text
    kept = json.loads((folder / "baselines.json").read_text())
    wrong = json.dumps({**kept, "data": "another", "results": []}) if damage == "other data" else damage
    (folder / "baselines.json").write_text(wrong)
    assert report_on(tmp_path, folder, baselines="auto").text == right
    assert json.loads((folder / "baselines.json").read_text()) == {**kept, "results": [*_timeless(folder, kept)]}


def _timeless(folder, kept):
    """Rows as they are now, after a check that all but the seconds are as before."""
    rows = json.loads((folder / "baselines.json").read_text())["results"]
    for now, before in zip(rows, kept["results"], strict=True):
        assert {**now, "seconds": 0} == {**before, "seconds": 0}
    return rows


def test_all_baselines_take_all_training_sets(tmp_path, monkeypatch):
    monkeypatch.setattr(report_data, "MOST_TRAIN", 40)
    folder = write_run(tmp_path / "run", make_line(options=SMALL))
    quick = report_on(tmp_path, folder, baselines="auto").text
    assert "Baselines were fitted to 40 training sets, not all; --baselines takes all." in quick
    assert "Baselines were fitted" not in report_on(tmp_path, folder, baselines="all").text
    rows = json.loads((folder / "baselines.json").read_text())["results"]
    assert {row["num_train"] for row in rows if row["skipped"] is None} == {60}
    assert "Baselines were fitted" not in report_on(tmp_path, folder, baselines="auto").text, "more than is asked for is welcome"


def test_slow_baselines_are_left_out_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(report_data, "MOST_NUMBERS", 10)
    line = make_line("point_cloud@shapes", value=0.8, start=0.04, options={"num_train": 40, "num_test": 40, "set_size": 20})
    page = report_on(tmp_path, write_run(tmp_path / "run", line), baselines="auto").text
    left_out = "Moments and quantiles, boosted trees, Kernel mean embedding, linear"
    assert f"Left out because they would take a while: {left_out}; --baselines adds them." in page


def test_baselines_that_were_runs_are_not_fitted_again(tmp_path, no_data):
    lines = [make_line(options={"depth": 3}), make_line(model="baseline:moments", value=0.35)]
    page = report_on(tmp_path, write_results(tmp_path / "out", lines)).text
    assert "Moments and quantiles, linear" in page
    assert "The best of" not in page, "there is one network"


def test_only_baselines_make_a_page_too(tmp_path, no_data):
    page = report_on(tmp_path, write_run(tmp_path / "run", make_line(model="baseline:moments", value=0.35))).text
    assert "no network" in page
    assert "0.350 [0.315, 0.385]" in page


def test_a_run_that_is_not_finished_is_reported_from_its_history(tmp_path, no_data):
    line = make_line(epochs=20)
    line["epochs"], line["steps"] = line["epochs"][:6], line["steps"][:50]
    other = write_run(tmp_path / "other", make_line(options={"depth": 3}))
    both = report_on(tmp_path, other, write_run(tmp_path / "run", line, finished=False)).text
    assert "Deep Sets++ with 3 layers (set norm, clean path), the only finished one of 2 runs, reached" in both
    page = report_on(tmp_path, tmp_path / "run").text
    assert "The run has not finished." in page
    assert "Not finished: Deep Sets++ 50 (run 1); stopped, or still running: 5 of 20 epochs" in page
    assert "so far" in page


def test_a_run_that_has_only_just_begun_makes_a_page(tmp_path, no_data):
    folder = write_run(tmp_path / "run", make_line(), finished=False)
    (folder / "history.json").unlink()
    page = report_on(tmp_path, folder).text
    assert "0 of 5 epochs" in page
    assert "Curves" not in page


def test_a_run_that_diverged_says_where(tmp_path, no_data):
    line = make_line(model="set_transformer", options={"depth": 16}, status="diverged", slope=7)
    line["steps"][-1] |= {"loss": None, "gradient_norm": None}
    page = report_on(tmp_path, write_run(tmp_path / "run", line)).text
    assert "Diverged: Set Transformer 16 (run 1); the loss became NaN at step 12: orderless diagnose shows the gradients." in page
    assert "Gradients are exploding in run 1." in page


def test_sick_gradients_are_told_with_their_evidence(tmp_path, no_data):
    page = report_on(tmp_path, write_run(tmp_path / "run", make_line(model="deep_sets", options={"depth": 50}, slope=-8))).text
    assert "Gradients are vanishing in run 1." in page
    assert "After epoch 5, the gradient of the first layer, encoder.0, is 10⁻⁸ times that of decoder" in page


def test_an_explosion_in_the_middle_of_a_run_is_told_though_it_began_and_ended_well(tmp_path, no_data):
    """Also where the result line, which has few moments and steps of a long run, has lost it."""
    whole = make_line(options={**SMALL, "depth": 4}, epochs=20)
    folder = write_run(tmp_path / "run", whole)
    page = report_on(tmp_path, folder).text
    assert "Gradients are" not in page
    history = json.loads((folder / "history.json").read_text())
    history["observed"]["layers"][2]["gradient"] = [1e12, 1.0, 1.0, 1.0]
    (folder / "history.json").write_text(json.dumps(history))
    page = report_on(tmp_path, folder).text
    assert "Gradients are exploding in run 1." in page
    assert "After epoch 10, gradients grow on their way back: 10¹² at encoder.0, but at most 1 in the second half" in page
    assert "Before training: healthy." in page


def test_seeds_are_averaged_as_the_paper_does(tmp_path, no_data):
    lines = [make_line(options={"seed": seed}, value=value) for seed, value in ((0, 0.018), (1, 0.020), (2, 0.022))]
    page = report_on(tmp_path, write_results(tmp_path / "out", lines)).text
    assert "1mean ± standard deviation of 3 runs0.0200 ± 0.00200.0198 ± 0.0041" in page, "ours, and the paper's beside it"


def test_seeds_that_failed_alike_are_told_of_together(tmp_path, no_data):
    options = [{"depth": 16, "seed": seed} for seed in range(3)]
    lines = [make_line(model="set_transformer", options=option, status="diverged") for option in options]
    page = report_on(tmp_path, write_results(tmp_path / "out", lines)).text
    assert "Every run diverged." in page
    assert "Diverged: Set Transformer 16 (runs 1a, 1b and 1c); run 1a: the loss became NaN" in page


def test_every_task_has_its_section_and_a_line_at_the_top(tmp_path, no_data):
    lines = [make_line(), make_line("hematocrit@simulated", value=19.2, start=26)]
    found = report_on(tmp_path, write_results(tmp_path / "out", lines))
    assert found.text.startswith("2 runs on Normal Var and Hematocrit"), "the paper's own data first"
    assert [attrs["id"] for tag, attrs in found.tags if tag == "section"] == ["task-1", "task-2"]
    assert [attrs["href"] for tag, attrs in found.tags if tag == "a"] == ["#task-1", "#task-2"]


def test_runs_on_other_sets_are_not_compared(tmp_path, no_data):
    lines = [make_line(), make_line(options={"set_size": 20}, value=0.5)]
    found = report_on(tmp_path, write_results(tmp_path / "out", lines))
    assert [tag for tag, _ in found.tags].count("section") == 2
    assert "best of" not in found.text


def test_text_from_files_is_never_markup(tmp_path, no_data):
    line = make_line(status="diverged")
    attack = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    line |= {"title": attack, "message": f"`{attack}`", "commit": attack, "hardware": {attack: '"><svg onload=alert(3)>'}}
    line["layers"]["names"][0] = attack
    found = report_on(tmp_path, write_run(tmp_path / "run", line), title=attack)
    assert [tag for tag, _ in found.tags].count("script") == 1, "ours"
    assert "img" not in [tag for tag, _ in found.tags]
    assert not [attrs for _, attrs in found.tags if any(name.startswith("on") for name in attrs)]
    assert found.text.count(attack) >= 4, "it is shown as it is written"


def test_a_page_without_matplotlib_says_what_is_missing(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ImportError("matplotlib is needed here but not installed: pip install 'orderless[plot]'")

    monkeypatch.setattr(report_data, "draw_task", refuse)
    page = report_on(tmp_path, write_run(tmp_path / "run", make_line(options=SMALL))).text
    assert "No picture of the sets: matplotlib is needed here" in page


def test_a_report_downloads_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.io.download.fetch", lambda *_, **__: pytest.fail("went to the network"), raising=False)
    line = make_line("hematocrit@flow_rbc", value=19.2, start=26)
    page = report_on(tmp_path, write_run(tmp_path / "run", line), baselines="auto").text
    assert "No baselines:" in page
    assert "expected the files of Flow-RBC, found none. orderless data prepare hematocrit@flow_rbc gets them" in page


def test_prepared_sets_are_enough_without_the_publishers_files(tmp_path):
    write_mnist(tmp_path / "raw" / "mnist")
    small = {"num_train": 20, "num_test": 10}
    load_task("mnist_var@mnist", data_dir=tmp_path / "raw", **small)
    (tmp_path / "cache" / "raw").mkdir()
    run = write_run(tmp_path / "run", make_line("mnist_var@mnist", options=small))
    assert "No baselines" not in report_on(tmp_path, run, baselines="auto").text
    other = write_run(tmp_path / "other", make_line("mnist_var@mnist", options={**small, "num_test": 11}))
    assert "expected the files of MNIST, found none" in report_on(tmp_path, other, baselines="auto").text


def test_a_data_folder_that_is_not_there_leaves_out_only_what_needs_it(tmp_path):
    run = write_run(tmp_path / "run", make_line(options=SMALL))
    page = report_on(tmp_path, run, baselines="auto", data_dir=tmp_path / "nowhere").text
    assert "No baselines:" in page
    assert "reached a test MSE of 0.0198" in page


def test_memory_and_the_released_protocol_are_told_where_there_are_some(tmp_path, no_data):
    line = {**make_line(), "peak_memory_mib": 2048.0, "released": {"mse": 0.0213}}
    page = report_on(tmp_path, write_run(tmp_path / "run", line)).text
    assert "released protocol" in page
    assert "0.02130" in page
    assert "2.0 GiB" in page


def test_a_run_whose_figure_is_not_finite_has_none(tmp_path, no_data):
    line = {**make_line(), "metrics": {"mse": None}, "intervals": {}}
    page = report_on(tmp_path, write_run(tmp_path / "run", line)).text
    assert "The run has not finished." not in page
    assert "Its test MSE is not a finite number." in page


def test_lines_without_folders_are_enough(tmp_path, no_data):
    out = write_results(tmp_path / "out", [make_line(), make_line(options={"depth": 3})])
    alone = tmp_path / "results.jsonl"
    alone.write_text((out / "results.jsonl").read_text())
    assert [run.spec.key for run in find_runs([alone])] == [json.loads(text)["key"] for text in alone.read_text().splitlines()]
    assert "2 runs on Normal Var" in report_on(tmp_path, alone).text


def test_a_run_is_reported_once_however_often_it_is_named(tmp_path):
    out = write_results(tmp_path / "out", [make_line()])
    (folder,) = (out / "runs").iterdir()
    assert len(find_runs([out, folder, out / "runs" / ".." / "runs" / folder.name])) == 1
    assert find_runs([out])[0].folder == folder, "the folder knows more than the line"


def test_runs_of_a_table_come_in_its_order(tmp_path):
    models = [("set_transformer++", 8), ("deep_sets", 50), ("deep_sets", 3), ("deep_sets++", 50)]
    out = write_results(tmp_path / "out", [make_line(model=model, options={"depth": depth}) for model, depth in models])
    found = [(run.spec.model, run.spec.model_options["depth"]) for run in find_runs([out])]
    assert found == [("deep_sets", 3), ("deep_sets", 50), ("deep_sets++", 50), ("set_transformer++", 8)]


DAMAGED = {
    "config.json": ("{", "expected JSON"),
    "result.json": ('{"spec": {}}', "a run of this version of orderless"),
    "history.json": ('{"unknown": 1}', "the history of a run"),
}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        *((n, *c) for n, c in DAMAGED.items()),
        ("config.json", "[]", "a JSON object, found list"),
        ("result.json", "null", "object"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, content, says):
    folder = write_run(tmp_path / "run", make_line(), finished=name != "history.json")
    (folder / name).write_text(content)
    with pytest.raises(DataError, match=says) as error:
        find_runs([folder])
    assert error.value.path == folder / name


def test_a_result_line_that_lacks_something_is_named(tmp_path):
    line = make_line()
    del line["epochs"]
    folder = write_run(tmp_path / "run", make_line())
    (folder / "result.json").write_text(json.dumps(line))
    with pytest.raises(DataError, match="one without 'epochs'"):
        find_runs([folder])
