"""The report in a real browser: it opens, filters, answers the pointer and the keyboard, and runs nobody's script."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from abps.study.records import load_runs
from abps.study.report import write_report


@pytest.fixture(scope="module")
def report(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(load_runs([study]), path)
    return path


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; the test fails on any script error, blocked resource or request to the network."""
    pages, problems = [], []

    def open_(path: Path, width: int = 1280, scheme: str = "light", address: str = "") -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on(
            "request",
            lambda request: problems.append(request.url) if not request.url.startswith(("file:", "blob:")) else None,
        )
        page.goto(path.as_uri() + address)
        page.wait_for_selector("html[data-ready=yes]")
        page.wait_for_selector("#curve-panels canvas")
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()
    assert problems == []


def series(page: Any, kind: str, figure: int = 0) -> list[dict[str, Any]]:
    """What a chart of the curves draws of one kind: label, x and y."""
    return page.evaluate(
        """([kind, number]) => document.querySelectorAll("#curve-panels figure")[number].chart.options.series
        .filter((one) => one.kind === kind)
        .map((one) => ({ label: one.label, x: one.x, y: one.y, low: one.low || null }))""",
        [kind, figure],
    )


def pixels(page: Any, figure: int = 0) -> str:
    """The picture that a chart's canvas shows."""
    return page.evaluate("(number) => document.querySelectorAll('#curve-panels canvas')[number].toDataURL()", figure)


def test_it_opens_and_filters(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    assert page.locator("#curve-panels figure").count() == 2
    assert page.locator("#summary-table tbody tr").count() == 6
    assert [one["label"] for one in series(page, "main")] == ["abs", "mpd", "ars"]
    page.get_by_label("pendulum", exact=True).uncheck()
    page.get_by_label("ars", exact=True).uncheck()
    assert page.locator("#curve-panels figure").count() == 1
    assert page.locator("#summary-table tbody tr").count() == 2
    assert "hopper" in page.locator("#curve-panels figcaption").inner_text()
    page.get_by_label("hopper", exact=True).uncheck()
    assert "Nothing is selected" in page.locator("#curve-panels").inner_text()


def test_the_headline_comes_first(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    sentences = page.locator("#headline p").all_inner_texts()
    assert [text.split(",")[0] for text in sentences] == ["pendulum", "hopper"]
    tops = [
        page.locator(f"#{name}").bounding_box()["y"] for name in ("headline", "curves", "summary", "one", "settings")
    ]
    assert tops == sorted(tops)


def test_axes_and_quantities_change_the_curves(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    seen = set()
    for name in ("steps", "minutes", "episodes", "maximum so far", "discounted", "mean"):
        page.locator("#controls").get_by_label(name, exact=True).check()
        one = series(page, "main")[0]
        unit = page.locator("#curve-panels .unit >> nth=0").inner_text()
        seen.add(str((one["x"], one["y"], unit)) + pixels(page)[-2000:])
    assert len(seen) >= 5
    assert series(page, "thin") == []
    page.get_by_label("single runs").check()
    assert len(series(page, "thin")) + len(series(page, "thin", 1)) == 18


def test_the_current_policy_is_drawn_with_the_maximum_beside_it(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    main, beside = series(page, "main"), series(page, "max")
    assert [one["label"] for one in beside] == ["abs, maximum", "mpd, maximum", "ars, maximum"]
    for current, most in zip(main, beside, strict=True):
        pairs = [(c, m) for c, m in zip(current["y"], most["y"], strict=True) if c is not None]
        assert all(c <= m for c, m in pairs)
        assert current["low"] is not None


def test_smoothing(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    raw = series(page, "main")[0]["y"]
    page.get_by_label("strong").check()
    (smooth, before) = series(page, "main")[0]["y"], series(page, "raw")[0]["y"]
    assert before == raw
    total, mass, weight = 0.0, 0.0, 0.9
    for value, drawn in zip(raw, smooth, strict=True):
        if value is None:
            continue
        total, mass = weight * total + (1 - weight) * value, weight * mass + (1 - weight)
        assert drawn == pytest.approx(total / mass)
    assert len(series(page, "max")) == 3, "the maximum so far is never smoothed"


def x_range(page: Any) -> list[float]:
    return page.evaluate(
        "(({ min, max }) => [min, max])(document.querySelector('#curve-panels figure').chart.u.scales.x)"
    )


def test_zoom(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    whole = x_range(page)
    box = page.locator("#curve-panels .u-over >> nth=0").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50, steps=4)
    page.mouse.up()
    low, high = x_range(page)
    assert (low, high) == (pytest.approx(whole[1] * 0.25, abs=3), pytest.approx(whole[1] * 0.5, abs=3))
    page.get_by_label("strong").check()
    assert x_range(page) == [low, high], "a chart that is drawn again stays where it was"
    page.locator("#curve-panels .u-over >> nth=0").dblclick()
    assert x_range(page) == whole
    page.get_by_role("button", name="Zoom in (+)").first.click()
    assert x_range(page) == [pytest.approx(whole[1] * 0.25), pytest.approx(whole[1] * 0.75)]
    page.get_by_role("button", name="Show everything again (0)").first.click()
    assert x_range(page) == whole
    page.locator("#curve-panels .plot >> nth=0").focus()
    page.keyboard.press("+")
    assert x_range(page)[1] - x_range(page)[0] == pytest.approx(whole[1] / 2)
    page.keyboard.press("0")
    assert x_range(page) == whole


def test_pointer_and_keyboard_read_values(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    figure = page.locator("#curve-panels figure >> nth=0")
    tooltip = figure.locator(".tooltip")
    assert tooltip.is_hidden()
    figure.locator(".u-over").hover()
    text = tooltip.inner_text()
    assert "training episodes" in text
    assert all(label in text for label in ("abs", "mpd", "ars", "abs, maximum"))
    page.mouse.move(0, 0)
    assert tooltip.is_hidden()
    page.get_by_label("single runs").focus()
    for _ in range(3):  # Past the two buttons of zoom.
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "plot"
    page.keyboard.press("End")
    last = tooltip.inner_text()
    (end,) = [one["y"][-1] for one in series(page, "main") if one["y"][-1] is not None]
    assert f"{end:.4g}" in last, "one search had the longest run"
    page.keyboard.press("Home")
    assert tooltip.inner_text() != last
    assert figure.locator("[aria-live]").inner_text().startswith(tooltip.inner_text().splitlines()[0])
    page.keyboard.press("Escape")
    assert tooltip.is_hidden()


def test_diagnostics_follow_the_chosen_run(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    titles = page.locator("#diagnostics-panels figcaption")
    assert "Scores of the critics" in titles.all_inner_texts()
    assert "Critics' scores" in page.locator("#findings").inner_text()
    page.locator("#run-choice").select_option(label="hopper · ars · seed 1")
    assert "Scores of the critics" not in titles.all_inner_texts()
    assert "Returns" in titles.all_inner_texts()
    assert "hopper/ars/seed-1" in page.locator("#next-steps").inner_text()


def test_the_address_keeps_what_was_chosen(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    assert "#" not in page.url
    page.get_by_label("steps", exact=True).check()
    page.get_by_label("light", exact=True).check()
    page.get_by_label("ars", exact=True).uncheck()
    page.get_by_label("hopper", exact=True).uncheck()
    page.locator("#run-choice").select_option(label="pendulum · mpd · seed 1")
    page.locator("#summary-table").get_by_role("button", name="Minutes").click()
    address = page.url.partition("#")[2]
    again = open_page(report, address=f"#{address}")
    assert again.get_by_label("steps", exact=True).is_checked()
    assert again.get_by_label("light", exact=True).is_checked()
    assert not again.get_by_label("ars", exact=True).is_checked()
    assert again.locator("#curve-panels figcaption").all_inner_texts() == ["pendulum"]
    assert "mpd · seed 1" in again.locator("#run-choice option:checked").inner_text()
    assert again.locator("#summary-table th[aria-sort=descending]").count() == 1
    strange = open_page(report, address="#axis=nonsense&kind=%00&hide=nobody&sort=summary.99.down&run=%3Cscript%3E")
    assert strange.get_by_label("episodes", exact=True).is_checked()
    assert strange.locator("#summary-table tbody tr").count() == 6


def test_tables_are_sorted(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)
    own = page.locator("#summary-table tbody tr").all_inner_texts()
    button = page.locator("#summary-table").get_by_role("button", name="Current policy")
    cells = "document.querySelectorAll('#summary-table tbody td[data-label=\"Current policy\"]')"
    read = f"[...{cells}].map((cell) => parseFloat(cell.innerText))"
    button.click()
    assert page.evaluate(read) == sorted(page.evaluate(read), reverse=True)
    button.press("Enter")
    assert page.evaluate(read) == sorted(page.evaluate(read))
    assert page.evaluate("document.activeElement.innerText").startswith("Current policy"), "the focus stays"
    button.click()
    assert page.locator("#summary-table tbody tr").all_inner_texts() == own


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_no_table_is_cut_off(report: Path, open_page: Callable[..., Any], width: int) -> None:
    page = open_page(report, width)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    page.wait_for_timeout(100)
    cut = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((place) => place.scrollWidth > place.clientWidth + 1).length"
    )
    assert (page.locator(".scroll").count() > 4, cut) == (True, 0)


@pytest.fixture(scope="module")
def one_run(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "report.html"
    write_report(load_runs([study / "hopper" / "abs" / "seed-0"]), path)
    return path


def test_one_run_has_no_statistics_over_seeds(one_run: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(one_run)
    text = page.locator("body").inner_text()
    assert not any(
        word in text for word in ("IQM", "bootstrap", "Over seeds", "Probability of improvement", "single runs")
    )
    assert page.locator("#headline").inner_text().startswith("Current policy ")
    tops = [
        page.locator(f"#{name}").bounding_box()["y"] for name in ("headline", "curves", "next", "policy", "diagnostics")
    ]
    assert tops == sorted(tops)
    assert [one["label"] for one in series(page, "main")] == ["current policy"]
    assert [one["label"] for one in series(page, "max")] == ["maximum so far"]


def test_the_policy_is_a_picture(one_run: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(one_run)
    assert page.locator("#policy .matrix rect").count() == 3 * 11
    assert "3 actions, 11 columns" in page.locator("#policy figcaption").inner_text()


def test_a_command_is_copied(one_run: Path, browser: Any) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(one_run.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    page.locator("#next-steps .copy >> nth=0").click()
    page.locator("#next-steps .copy", has_text="Copied").wait_for()
    command = page.locator("#next-steps code >> nth=0").inner_text()
    assert command.startswith("abps evaluate ")
    assert page.evaluate("navigator.clipboard.readText()") == command
    context.close()


def test_a_film_plays(
    study: Path, make_run: Callable[..., Path], tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    dot = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    (path / "video.gif").write_bytes(base64.b64decode(dot))
    write_report(load_runs([path]), tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    assert page.evaluate("document.querySelector('img.film').naturalWidth") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 1280])
def test_no_sideways_scrolling_and_readable_colours(
    report: Path, open_page: Callable[..., Any], width: int, scheme: str
) -> None:
    page = open_page(report, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    assert _contrast(*colours) > 7
    picture = page.screenshot()
    assert len(picture) > 10_000


def test_the_numbers_of_an_axis_differ(report: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(report)

    def numbers(splits: list[float | None]) -> list[str]:
        axis = "document.querySelector('#curve-panels figure').chart.u.axes[1]"
        return page.evaluate(f"(splits) => {axis}.values(null, splits)", splits)

    assert numbers([0.9985, 0.999, 0.9995, 1]) == ["0.9985", "0.999", "0.9995", "1"]
    assert numbers([100002, None, 100004]) == ["100.002k", "", "100.004k"]
    assert numbers([2.5e-5, 2.6e-5]) == ["2.5e−5", "2.6e−5"]
    assert numbers([0, 500, 1000, 20000]) == ["0", "500", "1000", "20k"]


def test_long_labels_fit_a_phone(make_run: Callable[..., Path], tmp_path: Path, open_page: Callable[..., Any]) -> None:
    for index, aggregation in enumerate(("softmax", "mean", "an-aggregation-with-quite-a-long-name")):
        settings = {"aggregation": aggregation, "reset_worst": index % 2 == 0}
        make_run(tmp_path, "hopper", "abs", 0, settings=settings, folder=f"abs-{index}", episodes=100)
    write_report(load_runs([tmp_path]), tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", 360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#curve-panels .u-over >> nth=0").hover()
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


def test_a_logarithmic_axis_has_numbers_on_a_phone_too(report: Path, open_page: Callable[..., Any]) -> None:
    """uPlot itself writes none when powers of ten are less than its `space` apart."""
    page = open_page(report, 390)
    axes = """[...document.querySelectorAll("figure")].map((figure) => figure.chart && figure.chart.u)
        .filter((u) => u && u.scales.y.distr === 3).map((u) => u.axes[1])"""
    labels = f"""(pixels) => {{ const values = [], axis = {axes}[0];
        for (let power = -8; power <= 1; power++)
          for (let digit = 1; digit <= 9; digit++) values.push(Number((digit * 10 ** power).toPrecision(3)));
        return axis.filter({{ valToPos: (value) => -pixels * Math.log10(value) }}, values).filter(Boolean); }}"""
    assert page.evaluate(labels, 14) == [1e-8, 1e-6, 1e-4, 0.01, 1]
    assert page.evaluate(labels, 30) == pytest.approx([10.0**power for power in range(-8, 2)])
    assert page.evaluate(labels, 100)[-5:] == [2, 5, 10, 20, 50]
    assert page.evaluate(labels, 300)[-5:] == [10, 20, 30, 50, 70]
    found = page.evaluate(f"{axes}.map((axis) => axis._values.filter(Boolean).length)")
    assert found, "the diagnostics have logarithmic axes"
    assert min(found) >= 2


def test_curves_have_a_legend_where_the_chips_are_folded_or_gone(report: Path, open_page: Callable[..., Any]) -> None:
    shown = "[...document.querySelector('#curve-panels').querySelectorAll('.legend .search')].filter((one) => "
    shown += "one.offsetParent).map((one) => one.innerText)"
    assert open_page(report, 1280).evaluate(shown) == []
    page = open_page(report, 390)
    assert page.evaluate(shown) == 2 * ["abs", "mpd", "ars"]
    page = open_page(report, 1280)
    page.emulate_media(media="print")
    assert page.evaluate(shown) == 2 * ["abs", "mpd", "ars"]


def test_one_search_has_a_solid_curve_and_a_dotted_maximum(
    make_run: Callable[..., Path], report: Path, tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    """Dashes tell searches apart; those of ARS are dots, as the maximum's are."""
    dashes = """() => {
        const { lines, styles } = document.querySelector("#curve-panels figure").chart;
        return styles.map((one, index) => [(lines[index] || {}).label || "", one.dash || null]);
    }"""
    make_run(tmp_path, "hopper", "ars", 0)
    write_report(load_runs([tmp_path]), tmp_path / "one.html")
    page = open_page(tmp_path / "one.html")
    found = dict(page.evaluate(dashes))
    assert found["current policy"] is None
    assert found["maximum so far"]
    strokes = "[...document.querySelectorAll('#curve-panels .legend line')].map((one) => one.style.cssText && "
    strokes += "one.getAttribute('stroke-dasharray'))"
    assert [bool(text) for text in page.evaluate(strokes)] == [False, True]
    several = open_page(report)
    assert dict(several.evaluate(dashes))["ars"], "beside others it has dashes"
