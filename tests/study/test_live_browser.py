"""The live page in a real browser: news appear by themselves, what the reader does is kept, a lost server is said."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abps.run.hardware import create_hardware_run, open_hardware_run
from abps.search.budget import BudgetConfig
from abps.search.registry import search_config
from abps.settings import replace
from abps.study.live import LiveStudy
from abps.study.server import LiveServer, make_server
from abps.tasks.config import HardwareConfig, TaskConfig
from abps.trajectory import Trajectory

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


def test_a_page_that_was_hidden_asks_as_soon_as_it_is_seen(
    make_run: Callable[..., Path], tmp_path: Path, browser: Any
) -> None:
    make_run(tmp_path, "hopper", "abs", 0)
    server = make_server(LiveStudy([tmp_path], 600.0))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    page = browser.new_page()
    page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => !window.seen })")
    page.goto(server.address)
    page.wait_for_selector("html[data-ready=yes]")
    page.wait_for_timeout(300)
    assert page.locator("#live").is_hidden(), "nobody asks for a page that nobody sees"
    page.evaluate("window.seen = true; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_selector(".live.well", timeout=15000)
    page.close()
    server.shutdown()
    server.server_close()


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


def test_a_long_reason_does_not_push_the_list_of_runs_into_cards(
    watched: tuple[Path, LiveServer], browser: Any
) -> None:
    """A failed run's sentence names files and commands, which no browser breaks by itself."""
    path, server = watched
    reason = f"10 episodes in a row failed. The traceback is in {path}/failures.log (`abps failures {path}`)"
    (path / "FAILED").write_text(reason)
    config = (path / "config.yaml").read_text().replace("horizon: 1000", "horizon: 1000\n  constraint: [torque<=5]")
    (path / "config.yaml").write_text(config)
    for width, cards in ((1280, False), (390, True)):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(server.address)
        page.locator("#runs-table .status-failed", has_text="failures.log").wait_for(timeout=15000)
        assert (page.locator("#runs-table .stack").count() == 1) == cards, f"{width} pixels"
        cut = "(place) => place.scrollWidth > place.clientWidth + 1"
        assert not page.evaluate(f"[...document.querySelectorAll('#runs-table .scroll')].some({cut})")
        cell = page.locator("#runs-table td.status-failed")
        assert cell.locator("details").bounding_box()["height"] < 30, "the reason is folded"
        assert "failures.log" not in cell.inner_text()
        cell.locator("summary").focus()
        page.keyboard.press("Enter")
        assert reason in cell.inner_text(), "and it is all there, for the keyboard, too"
        page.close()


def tell(path: Path, *forces: float) -> None:
    """Tell a robot's episodes of so large forces."""
    for force in forces:
        with open_hardware_run(path) as robot:
            request = robot.ask()
            assert request is not None
            act, seen = request.policy.start(), np.zeros((5, 2))
            actions = np.array([act(row) for row in seen[:-1]])
            costs = np.full((4, 1), force)
            robot.tell(Trajectory.build(seen, actions, np.ones(4), terminated=False, truncated=True, costs=costs))


def test_an_operator_sees_the_costs_of_the_newest_episodes(tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "arm"
    create_hardware_run(
        path,
        TaskConfig(name="arm", horizon=8, constraint=("force<=3",)),
        HardwareConfig(observations=2, action_low=(-1.0,), action_high=(1.0,)),
        search="ars",
        config=replace(search_config("ars", "arm"), directions=2, top=1),
        budget=BudgetConfig(episodes=12),
    )
    tell(path, 1.0, 3.25)
    server = make_server(LiveStudy([path], 0.1))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    page, problems = browser.new_page(viewport={"width": 1280, "height": 900}), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(server.address)
    page.wait_for_selector("#costs-panels canvas")
    rows = page.locator("#newest tbody tr")
    shown = [[cell.strip() for cell in row.split("\t")] for row in rows.all_inner_texts()]
    assert [(row[0], row[3]) for row in shown] == [("1", "3.25 (beyond)"), ("0", "1")]
    assert page.locator("#newest th", has_text="force (limit 3)").count() == 1
    assert page.locator("#newest .beyond").count() == 1
    tell(path, 2.5)
    page.locator("#newest", has_text="The newest 3 episodes").wait_for(timeout=15000)
    assert rows.first.inner_text().split("\t")[3].strip() == "2.5"
    assert "Beyond the limit: 1 of 3 episodes" in page.locator("#costs-panels").inner_text()
    assert problems == []
    page.close()
    server.shutdown()
    server.server_close()
