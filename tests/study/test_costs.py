"""Costs of a constrained run beside their limits: as data (`study/costs.py`), and as charts in a browser."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from abps.study.costs import MOST_EPISODES, cost_charts
from abps.study.headline import facts
from abps.study.records import Run, load_run
from abps.study.report import payload, write_report

MakeRun = Callable[..., Path]
TORQUE, WEAR = "torque<=2", "wear<=9(reduce=sum, probability=0.8)"


@pytest.fixture
def constrained(make_run: MakeRun, tmp_path: Path) -> Callable[..., Run]:
    """Make a run with these constraints and lines of its journal."""

    def make(constraint: list[Any], lines: list[Any]) -> Run:
        path = make_run(tmp_path, "hopper", "abs", 0)
        config = yaml.safe_load((path / "config.yaml").read_text())
        config["task"]["constraint"] = constraint
        (path / "config.yaml").write_text(yaml.safe_dump(config))
        (path / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return load_run(path)

    return make


def line(number: int, torque: Any, wear: Any = 1.0, **more: Any) -> dict[str, Any]:
    broken = [name for name, cost, limit in (("torque", torque, 2), ("wear", wear, 9)) if cost > limit]
    costs = {"torque": torque, "wear": wear}
    told = {"episode": number, "return": 5.0, "role": "probe", "steps": 9, "failed": None}
    return {**told, "costs": costs, "violated": broken, **more}


def failed(number: int) -> dict[str, Any]:
    return line(number, 0.0) | {"return": None, "failed": "it fell", "costs": None, "violated": None}


def test_every_constraint_has_its_chart(constrained: Callable[..., Run]) -> None:
    costs = (0.5, 2.5, 2.0, 1.0)
    run = constrained([TORQUE, WEAR], [*(line(n, cost, 4 * cost) for n, cost in enumerate(costs)), failed(4)])
    torque, wear = cost_charts(run)
    assert (torque["name"], torque["limit"], torque["unit"]) == ("torque", 2, "largest cost of a step")
    assert torque["within"] == {"x": [0, 2, 3], "y": [0.5, 2, 1]}  # At the limit is within it.
    assert torque["beyond"] == {"x": [1], "y": [2.5]}
    told = "Beyond the limit: 1 of 4 episodes (25\u202f%), none of them in the second half. Wanted: at most 5\u202f%."
    assert torque["note"] == told
    assert (wear["limit"], wear["unit"], wear["beyond"]["y"]) == (9, "sum of the costs of all steps", [10])
    assert "Wanted: at most 20\u202f%." in wear["note"]
    shown = payload([run])["details"]
    assert next(iter(shown.values()))["costs"] == [torque, wear]


def test_nothing_reported_yet_and_no_constraint(constrained: Callable[..., Run]) -> None:
    (chart,) = cost_charts(constrained([TORQUE], [failed(0)]))
    assert (chart["within"]["x"], chart["beyond"]["x"], chart["note"]) == ([], [], "No cost has been reported yet.")


def test_a_run_without_constraints_has_no_chart(make_run: MakeRun, tmp_path: Path) -> None:
    assert cost_charts(load_run(make_run(tmp_path, "hopper", "abs", 0))) == []


@pytest.mark.parametrize("costs", [None, 3, "much", [], {"torque": "much"}, {"torque": None}, {"torque": 1e999}, {}])
def test_costs_that_are_none_are_left_out(constrained: Callable[..., Run], costs: Any) -> None:
    run = constrained([TORQUE], [line(0, 1.0), line(1, 1.0, costs=costs, violated=[]), line(2, 3.0)])
    (chart,) = cost_charts(run)
    assert (chart["within"], chart["beyond"]) == ({"x": [0], "y": [1]}, {"x": [2], "y": [3]})
    json.dumps(payload([run]), allow_nan=False)


def test_constraints_that_are_none_are_left_out(constrained: Callable[..., Run]) -> None:
    run = constrained(["torque", 7, None, {"a": 1}, "x<=1(reduce=most)", TORQUE], [line(0, 1.0)])
    assert [chart["name"] for chart in cost_charts(run)] == ["torque"]


def test_of_many_episodes_those_beyond_the_limit_stay(constrained: Callable[..., Run]) -> None:
    run = constrained([TORQUE], [line(n, 3.0 if n % 1000 == 7 else 1.0) for n in range(5000)])
    (chart,) = cost_charts(run)
    assert chart["beyond"]["x"] == [7, 1007, 2007, 3007, 4007]
    assert len(chart["within"]["x"]) == MOST_EPISODES
    assert chart["within"]["x"][-1] == 4999


def test_counts_of_episodes_are_spelled(constrained: Callable[..., Run]) -> None:
    """It said: of 4 trainings episode."""
    run = constrained([TORQUE], [line(n, 3.0) for n in range(4)])
    (fact,) = (item for item in facts(run) if item["name"] == "Beyond a limit")
    assert fact["value"] == "4"
    assert fact["note"] == f"of {run.episodes_run} training episodes: torque<=2"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_charts_in_a_browser(constrained: Callable[..., Run], browser: Any, tmp_path: Path, width: int) -> None:
    """A limit line, dots within it, rings beyond it, crosses of failures; nothing wider than the screen."""
    long = "distance_to_the_nearest_wall<=0.25(probability=0.9,reduce=sum,source=my_robot:distance)"
    lines = [*(line(n, 0.1 * n) for n in range(30)), failed(30)]
    run = constrained([TORQUE, long], lines)
    write_report([run], tmp_path / "report.html")
    problems: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector("#costs-panels canvas")
    kinds = page.evaluate(
        "document.querySelector('#costs-panels figure').chart.options.series.map((one) => [one.kind, one.x.length])"
    )
    assert kinds == [["limit", 2], ["dots", 21], ["rings", 9]]
    first = page.locator("#costs-panels figure").first
    legend = first.locator(".legend li").all_inner_texts()
    assert [text.replace("\n", " ") for text in legend] == [
        "limit 2",
        "within the limit",
        "beyond the limit",
        "✕ failed",
    ]
    assert "No cost has been reported yet." in page.locator("#costs-panels figure").nth(1).inner_text()
    red = page.evaluate(
        """() => { const canvas = document.querySelector("#costs-panels canvas");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const wanted = getComputedStyle(document.documentElement).getPropertyValue("--error").trim();
        const [r, g, b] = [1, 3, 5].map((at) => parseInt(wanted.slice(at, at + 2), 16));
        let found = 0;
        for (let at = 0; at < pixels.length; at += 4)
          found += Math.abs(pixels[at] - r) + Math.abs(pixels[at + 1] - g) + Math.abs(pixels[at + 2] - b) < 30;
        return found; }"""
    )
    assert red > 100, "limit, rings and the cross are drawn"
    first.locator(".plot").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert first.locator("[aria-live]").inner_text() == "episode 29: beyond the limit 2.9; limit 2"
    assert page.locator("#runs-table th", has_text="Beyond a limit").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []
    page.close()
