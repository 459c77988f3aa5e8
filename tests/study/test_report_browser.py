"""The report in a real browser: it opens, filters, answers the pointer and the keyboard, and runs nobody's script."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from abps.study.records import load_runs
from abps.study.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium installed (apt-get install chromium)")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield instance
        instance.close()


@pytest.fixture(scope="module")
def report(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(load_runs([study]), path)
    return path


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; the test fails on any script error, blocked resource or request to the network."""
    pages, problems = [], []

    def open_(path: Path, width: int = 1280, scheme: str = "light") -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on(
            "request",
            lambda request: problems.append(request.url) if not request.url.startswith(("file:", "blob:")) else None,
        )
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        page.wait_for_selector("#curve-panels svg")
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()
    assert problems == []


def test_it_opens_and_filters(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    assert page.locator("#curve-panels figure").count() == 2
    assert page.locator("#summary-table tbody tr").count() == 6
    assert page.locator("#curve-panels figure >> nth=0 >> path.curve").count() == 3
    page.get_by_label("pendulum", exact=True).uncheck()
    page.get_by_label("ars", exact=True).uncheck()
    assert page.locator("#curve-panels figure").count() == 1
    assert page.locator("#summary-table tbody tr").count() == 2
    assert "hopper" in page.locator("#curve-panels figcaption").inner_text()
    page.get_by_label("hopper", exact=True).uncheck()
    assert "Nothing is selected" in page.locator("#curve-panels").inner_text()


def test_axes_and_quantities_change_the_curves(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    seen = set()
    for name in ("steps", "minutes", "episodes", "maximum so far", "discounted", "mean"):
        page.get_by_label(name, exact=True).check()
        page.wait_for_selector("#curve-panels svg path.curve")
        panel = page.locator("#curve-panels figure >> nth=0")
        seen.add(panel.locator("path.curve >> nth=0").get_attribute("d") + panel.locator("svg >> nth=0").text_content())
    assert len(seen) >= 5
    before = page.locator("#curve-panels path.thin").count()
    page.get_by_label("single runs").check()
    page.wait_for_selector("#curve-panels path.thin")
    assert (before, page.locator("#curve-panels path.thin").count()) == (0, 18)


def test_pointer_and_keyboard_read_values(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    figure = page.locator("#curve-panels figure >> nth=0")
    tooltip = figure.locator(".tooltip")
    assert tooltip.is_hidden()
    figure.locator("svg >> nth=0").hover()
    text = tooltip.inner_text()
    assert "training episodes" in text
    assert all(label in text for label in ("abs", "mpd", "ars"))
    page.mouse.move(0, 0)
    assert tooltip.is_hidden()
    page.get_by_label("single runs").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "svg"
    page.keyboard.press("End")
    last = tooltip.inner_text()
    page.keyboard.press("Home")
    assert tooltip.inner_text() != last
    assert figure.locator("[aria-live]").inner_text().startswith(tooltip.inner_text().splitlines()[0])
    page.keyboard.press("Escape")
    assert tooltip.is_hidden()


def test_diagnostics_follow_the_chosen_run(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    titles = page.locator("#diagnostics-panels figcaption")
    assert "Scores of the critics" in titles.all_inner_texts()
    page.locator("#run-choice").select_option(label="hopper · ars · seed 1")
    assert "Scores of the critics" not in titles.all_inner_texts()
    assert "Returns" in titles.all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_no_sideways_scrolling_and_readable_colours(
    report: Path, open_page: Callable[..., Any], width: int, scheme: str
) -> None:
    page = open_page(report, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    assert _contrast(*colours) > 7
    picture = page.screenshot()
    assert len(picture) > 10_000


def test_long_labels_fit_a_phone(make_run: Callable[..., Path], tmp_path: Path, open_page: Callable[..., Any]) -> None:
    for index, aggregation in enumerate(("softmax", "mean", "an-aggregation-with-quite-a-long-name")):
        settings = {"aggregation": aggregation, "reset_worst": index % 2 == 0}
        make_run(tmp_path, "hopper", "abs", 0, settings=settings, folder=f"abs-{index}", episodes=100)
    write_report(load_runs([tmp_path]), tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", 360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#curve-panels svg >> nth=0").hover()
    text = page.locator("#curve-panels .tooltip").inner_text()
    assert "aggregation=softmax, reset_worst=yes" in text, "without the name they all share"


def _contrast(first: str, second: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def test_a_hostile_run_executes_nothing(
    make_run: Callable[..., Path], tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0, settings={"aggregation": HOSTILE}, versions={"mujoco": HOSTILE})
    (path / "config.yaml").write_text(
        (path / "config.yaml").read_text().replace("name: hopper", f"name: {HOSTILE!r}".replace("\\'", "''"))
    )
    (path / "DONE").rename(path / "FAILED")
    (path / "FAILED").write_text(HOSTILE)
    write_report(load_runs([path]), tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    assert page.title() != "owned"
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("#warnings").inner_text()


def test_the_security_policy_stops_foreign_scripts(report: Path, browser: Any, tmp_path: Path) -> None:
    """Negative control of the test above: even markup smuggled past the escaping would not run."""
    broken = tmp_path / "broken.html"
    broken.write_text(report.read_text().replace("<main>", "<main><script>document.title='owned'</script>"))
    page = browser.new_page()
    page.goto(broken.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    assert page.title() != "owned"
    broken.write_text(broken.read_text().replace('http-equiv="Content-Security-Policy"', 'name="off"'))
    page.goto(broken.as_uri())
    assert page.title() == "owned"
    page.close()


def test_summary_can_be_saved(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("task,search,seeds,episodes")
