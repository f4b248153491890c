"""Reports as a reader sees them, in headless Chromium: nothing fails, all is there, and it can be read at any width."""

import json
import re

import pytest
from browser import Browser
from experiments.lines import make_line, write_results, write_run

from orderless.experiments.report import find_runs, write_report

SMALL = {"num_train": 60, "num_test": 30, "set_size": 20}


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with everything on it: two tasks, seeds, a run that diverged, one that is not finished, sick gradients, pictures."""
    folder = tmp_path_factory.mktemp("report")
    lines = [
        make_line(model="deep_sets", options={**SMALL, "depth": 50}, value=9.0, slope=-9),
        *(make_line(options={**SMALL, "seed": seed}, value=0.02 + seed / 100) for seed in range(2)),
        make_line(model="set_transformer", options={**SMALL, "depth": 16}, status="diverged", slope=6),
        make_line("anemia@simulated", "set_transformer++", {**SMALL, "depth": 2}, value=0.6, start=0.5),
    ]
    out = write_results(folder / "out", lines)
    unfinished = make_line(options={**SMALL, "depth": 25}, epochs=20)
    unfinished["epochs"] = unfinished["epochs"][:6]
    write_run(out / "runs" / unfinished["key"], unfinished, finished=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ORDERLESS_DATA", raising=False)
        patch.setenv("ORDERLESS_CACHE", str(folder / "cache"))
        return write_report(find_runs([out]), folder / "page.html", title="A report <b>&</b> a test")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wrong_with_a_page(browser, page, width, scheme, tmp_path):
    opened = browser.open(page, width=width, scheme=scheme)
    assert opened.problems() == []
    shot = opened.screenshot(tmp_path / "page.png").read_bytes()
    assert shot.startswith(b"\x89PNG")
    assert int.from_bytes(shot[16:20], "big") <= width, "no wider than the window"
    opened.close()


def test_every_figure_is_there(browser, page):
    opened = browser.open(page)
    captions = opened.evaluate("[...document.querySelectorAll('figcaption b')].map(b => b.textContent)")
    curves = ["Training loss, step by step.", "Gradient norm, step by step."]
    gradients = ["Over depth.", "Over time."]
    assert captions == [
        *["Test MSE with 95 % intervals", "Training loss.", "Test MSE.", *curves, *4 * gradients, "Some sets"],
        *["Test accuracy with 95 % intervals", "Training loss.", "Test cross entropy.", "Test accuracy.", *curves, *gradients],
        "Some sets",
    ]
    opened.close()


def test_colours_follow_the_readers_scheme(browser, page):
    grounds = {}
    for scheme in ("light", "dark"):
        opened = browser.open(page, scheme=scheme)
        grounds[scheme] = opened.evaluate("getComputedStyle(document.body).backgroundColor")
        opened.close()
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 23)"}


def test_wide_tables_scroll_inside_their_place(browser, page):
    opened = browser.open(page, width=400)
    wide = opened.evaluate("[...document.querySelectorAll('.scroll')].map(e => [e.scrollWidth, e.clientWidth, e.tabIndex])")
    assert wide, "there are tables"
    assert any(inner > outer for inner, outer, _ in wide), "one is too wide for a phone"
    assert {tab for *_, tab in wide} == {0}, "the keyboard reaches them"
    opened.close()


def test_it_prints_on_paper(browser, page):
    opened = browser.open(page, width=794, media="print", scheme="dark")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 794
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    opened.close()


def test_pointing_at_a_chart_reads_its_numbers(browser, page):
    opened = browser.open(page)
    said = opened.evaluate("""(() => {
        const area = document.querySelector('.plot[data-read] .area'), box = area.getBoundingClientRect();
        area.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + 0.5 * box.width, clientY: box.top + 5}));
        const seen = area.querySelector('output').innerText;
        area.dispatchEvent(new PointerEvent('pointerleave'));
        return [seen, area.querySelector('output').hidden];
    })()""")
    assert said[0].startswith("epoch 3\n1")
    shown = opened.evaluate("document.querySelector('.plot[data-read]').dataset.read")
    values = [dict(map(tuple, line["points"])).get(3) for line in json.loads(shown)["lines"]]
    assert all(value in said[0] for value in values if value)
    assert said[1], "and it goes away again"
    assert opened.complaints == []
    opened.close()


def test_arrow_keys_read_the_numbers_too(browser, page):
    opened = browser.open(page)
    said = opened.evaluate("""(() => {
        const area = document.querySelector('.plot[data-read] .area');
        area.focus();
        for (const key of ['ArrowRight', 'ArrowRight', 'ArrowLeft'])
            area.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
        return [document.activeElement === area, area.querySelector('output').innerText];
    })()""")
    assert said[0]
    assert said[1].startswith("epoch 2\n")
    opened.close()


def test_text_of_a_run_never_runs(browser, tmp_path, monkeypatch):
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    attack = "</title><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    line = {**make_line(options=SMALL), "title": attack, "commit": attack}
    out = write_report(find_runs([write_run(tmp_path / "run", line)]), tmp_path / "page.html", title=attack, baselines="none")
    opened = browser.open(out)
    assert opened.evaluate("window.hacked") is None
    assert opened.evaluate("document.title") == re.sub(r"\s+", " ", attack)
    assert opened.problems() == []
    opened.close()


GOOD = "<!DOCTYPE html><meta charset=utf-8><meta name=viewport content='width=device-width'><title>t</title><body>{}"
FIGURE = "<figure><figcaption>Loss</figcaption><svg width=100 height=100 role=img aria-label=Loss></svg></figure>"
BROKEN = {
    "throws": (f"{FIGURE}<script>null.boom</script>", "exception: TypeError"),
    "complains": (f"{FIGURE}<script>console.error('no')</script>", "console error: ['no']"),
    "loads a file that is not there": (f"{FIGURE}<img src=nowhere.png alt=x>", "failed to load file:"),
    "loads from the network": (
        f"{FIGURE}<img src='http://localhost:9/x.png' alt=x>",
        "loads from the network: http://localhost:9",
    ),
    "no figure": ("<p>text</p>", "there is no figure"),
    "empty figure": ("<figure><figcaption>Loss</figcaption></figure>", "figure 'Loss' is empty"),
    "hidden figure": (f"<style>svg {{ height: 0 }}</style>{FIGURE}", "has a part of 100 x 0 pixels"),
    "no caption": ("<figure><svg width=100 height=100 aria-label=x></svg></figure>", "a figure has no caption"),
    "no description": (FIGURE.replace("aria-label=Loss", ""), "a part without a description"),
    "too wide": (f"{FIGURE}<div style='width: 900px'>x</div>", "pixels wide in a window of 400"),
    "too small": (f"{FIGURE}<p style='font-size: 9px'>fine print</p>", "'fine print' is 9 pixels high"),
    "too faint": (f"{FIGURE}<p style='color: #aaa'>pale</p>", "'pale' has contrast 2.32"),
    "table without heads": (f"{FIGURE}<table><tr><th>a</table>", "table header 'a'"),
    "one id twice": (f"{FIGURE}<p id=a></p><p id=a></p>", "id 'a' is there twice"),
}


@pytest.mark.parametrize(("body", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_page_is_caught(browser, tmp_path, body, says):
    (tmp_path / "page.html").write_text(GOOD.format(body))
    opened = browser.open(tmp_path / "page.html", width=400)
    assert any(says in problem for problem in opened.problems()), opened.problems()
    opened.close()


def test_a_good_page_has_no_problems(browser, tmp_path):
    (tmp_path / "page.html").write_text(GOOD.format(FIGURE))
    opened = browser.open(tmp_path / "page.html", width=400)
    assert opened.problems() == []
    opened.close()


def test_a_machine_without_a_browser_skips(monkeypatch):
    monkeypatch.setattr("browser.shutil.which", lambda _: None)
    with pytest.raises(pytest.skip.Exception, match="no browser here"), Browser():
        pass
