"""The live page in a real browser: news appear by themselves, what the reader does is kept, a lost server is said."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from abps.study.live import LiveStudy
from abps.study.server import LiveServer, make_server

X_RANGE = "(({ min, max }) => [min, max])(document.querySelector('#curve-panels figure').chart.u.scales.x)"


@pytest.fixture
def watched(make_run: Callable[..., Path], tmp_path: Path) -> Iterator[tuple[Path, LiveServer]]:
    path = make_run(tmp_path, "hopper", "abs", 0, status="unfinished")
    make_run(tmp_path, "hopper", "mpd", 0)
    server = make_server(LiveStudy([tmp_path], 0.1))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield path, server
    server.shutdown()
    server.server_close()


def append(path: Path, value: float) -> None:
    last = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])
    row = {**last, "episodes": last["episodes"] + 5, "seconds": last["seconds"] + 9, "eval_return": value}
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def test_news_appear_and_what_the_reader_does_is_kept(watched: tuple[Path, LiveServer], browser: Any) -> None:
    path, server = watched
    problems, outside = [], []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: outside.append(asked.url) if not asked.url.startswith(server.address) else None)
    page.goto(server.address)
    page.wait_for_selector(".live.well")
    page.wait_for_selector("#next-steps li")  # The details of the first run, asked for apart.
    assert "stopped" in page.locator("#runs-table").inner_text()
    page.get_by_label("strong").check()
    page.get_by_role("button", name="Zoom in (+)").first.click()
    zoomed = page.evaluate(X_RANGE)
    page.locator("#runs-table").get_by_role("button", name="Steps").click()
    page.locator("#settings summary").first.click()
    append(path, 4242.0)
    page.locator("#runs-table", has_text="4242").wait_for(timeout=15000)
    page.locator("#run-headline", has_text="4242").wait_for(timeout=15000)
    assert page.get_by_label("strong").is_checked()
    assert page.evaluate("document.activeElement.tagName") != "BODY", "the focus is kept"
    again = page.evaluate(X_RANGE)
    assert again == zoomed
    assert page.locator("#runs-table th[aria-sort]").count() == 1
    assert page.locator("#settings details").first.get_attribute("open") is not None
    (path / "DONE").write_text("episodes: budget reached")
    page.locator("#runs-table .status-done").nth(1).wait_for(timeout=15000)
    assert (problems, outside) == ([], [])
    server.shutdown()
    server.server_close()
    page.wait_for_selector(".live.lost", timeout=15000)
    assert "is abps watch still running?" in page.locator("#live").inner_text()
    page.close()


def test_it_waits_for_the_first_run(make_run: Callable[..., Path], tmp_path: Path, browser: Any) -> None:
    server = make_server(LiveStudy([tmp_path / "later"], 0.1))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(server.address)
    page.locator("#headline", has_text="No runs yet").wait_for(timeout=15000)
    hostile = "</script><img src=x onerror=\"document.title='owned'\">"
    path = make_run(tmp_path / "later", "hopper", "abs", 0)
    config = (path / "config.yaml").read_text().replace("name: hopper", f"name: {json.dumps(hostile)}")
    (path / "config.yaml").write_text(config)
    page.wait_for_selector("#curve-panels canvas", timeout=15000)
    page.locator("h1", has_text="onerror").wait_for(timeout=15000)
    assert page.title() != "owned"
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
    server.shutdown()
    server.server_close()
