"""Parts from outside the package (examples/extending): trained, stopped, resumed bit for bit, saved and loaded."""
# pyright: reportMissingImports=false

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abps
from abps.acquisition.probing import MaximiseCriterion
from abps.critics.lstd_config import Lstd, Quadratic
from abps.errors import ConfigError, RunError
from abps.model.gp import GP
from abps.model.prior import AdvantagePrior
from abps.registry import KINDS
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, create_directory, read_settings
from abps.run.loop import train
from abps.run.metrics import without_times
from abps.search.base import SearchConfig
from abps.search.local import LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.search.registry import search_config
from abps.settings import from_dict, replace, to_dict
from abps.tasks.config import TaskConfig
from abps.testing import check_strategy

EXAMPLES = Path(__file__).parents[2] / "examples" / "extending"
TASK = TaskConfig(id="small_lqr:make_env", name="small-lqr", gamma=0.95, horizon=30)
PARTS = {
    "policy": "network:TanhNetwork",
    "observations": "smaller_parts:FirstStatistics",
    "chart": "smaller_parts:Scaled",
    "gp.kernel": "rational_quadratic:RationalQuadratic",
    "prior.critics": "quadratic_critic:QuadraticCritic",
    "prior.aggregation": "smaller_parts:OnlyGood",
    "probing": "smaller_parts:SphereProbes",
    "probing.criterion": "return_variance:ReturnVariance",
    "step": "momentum:Momentum",
    "plan": "smaller_parts:FreshDesign",
    "restarts": "smaller_parts:RestartEvery",
}


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples can be imported, as they can where a user works."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.fixture
def registry() -> Iterator[None]:
    """Registered names are forgotten afterwards."""
    before = {family: dict(kinds) for family, kinds in KINDS.items()}
    yield
    for family, kinds in before.items():
        KINDS[family].clear()
        KINDS[family].update(kinds)


def composed(setting: str = "") -> LocalSearchConfig:
    """A short local search with critics, one of its parts from outside."""
    config = LocalSearchConfig(
        prior=AdvantagePrior(Lstd(members=2, groups=1, features=Quadratic())),
        gp=GP(lengthscale_low=0.05, lengthscale_high=0.5),
        probing=MaximiseCriterion(start_std=0.1, starts=8),
        plan=CentreThenProbes(1, 3, 8, 0.1),
        states=32,
    )
    document = to_dict(config)
    *groups, last = setting.split(".")
    place = document
    for group in groups:
        place = place[group]
    if setting:
        place[last] = {"kind": PARTS[setting]}
    return from_dict(LocalSearchConfig, document)


def settings_of(search: SearchConfig, name: str = "mine", episodes: int = 16) -> RunSettings:
    run = RunConfig(evaluation_episodes=1, retries=0)
    return RunSettings(TASK, name, search, abps.BudgetConfig(episodes=episodes), run, seed=1)


class StopAfter:
    """Presses Ctrl-C."""

    def __init__(self, episodes: int) -> None:
        self.episodes = episodes

    def begin(self, run: Any) -> None: ...

    def episode(self, run: Any, outcome: Any) -> None:
        self.episodes -= 1
        if self.episodes == 0:
            raise KeyboardInterrupt

    def iteration(self, run: Any, metrics: Any) -> None: ...

    def end(self, run: Any, reasons: Any) -> None: ...


def contents(path: Path) -> dict[str, Any]:
    """Everything of a run that must be equal bit for bit."""
    lines = {
        name: [without_times(json.loads(line)) for line in (path / name).read_text().splitlines()]
        for name in ("journal.jsonl", "metrics.jsonl")
    }
    for line in lines["metrics.jsonl"]:
        assert not any(isinstance(value, float) and np.isnan(value) for value in line.values())
    arrays = sorted((path / "checkpoint").glob("*.safetensors"))[-1]
    files = [path / "policy" / "best.npz", path / "policy" / "current.npz", arrays]
    return {**lines, **{file.name: file.read_bytes() for file in files}}


def trained(path: Path, settings: RunSettings, stop_after: int = 0) -> dict[str, Any]:
    create_directory(path, settings)
    if stop_after:
        with pytest.raises(KeyboardInterrupt):
            train(path, settings, (StopAfter(stop_after),))
    train(path, read_settings(path))  # As `abps resume` does: from what the file says.
    return contents(path)


# ---- from Python ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", PARTS)
def test_a_part_from_outside_trains_and_resumes_bit_for_bit(setting: str, tmp_path: Path) -> None:
    settings = settings_of(composed(setting))
    assert read_back(settings) == settings
    assert trained(tmp_path / "a", settings) == trained(tmp_path / "b", settings, stop_after=13)


def read_back(settings: RunSettings) -> RunSettings:
    from abps.run.directory import settings_document, settings_from_document

    return settings_from_document(json.loads(json.dumps(settings_document(settings))))


def test_a_search_from_outside_trains_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    search = search_config("evolution:OnePlusOneConfig")
    settings = settings_of(search, "evolution:OnePlusOneConfig")
    assert trained(tmp_path / "a", settings) == trained(tmp_path / "b", settings, stop_after=7)
    records = contents(tmp_path / "a")["metrics.jsonl"]
    assert len(records) == 16
    assert len({record["mutation_std"] for record in records}) > 5


def test_a_strategy_from_outside_trains_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    from cross_entropy import CrossEntropy

    check_strategy(CrossEntropy())
    settings = settings_of(abps.PopulationConfig(strategy=CrossEntropy(population=5, best=2)), "snes")
    assert read_back(settings) == settings
    assert trained(tmp_path / "a", settings) == trained(tmp_path / "b", settings, stop_after=7)
    spreads = [record["spread"] for record in contents(tmp_path / "a")["metrics.jsonl"]]
    assert spreads[-1] < spreads[0]


def test_the_example_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import train_with_them

    result = train_with_them.main(tmp_path)
    assert result.episodes == 140
    assert result.last is not None
    assert result.last["max_return"] > -6.0  # The best linear policy returns −5.0, the first one −19.4.
    assert "the return went from -19.44 to -5" in capsys.readouterr().out


def test_memory_makes_a_difference_and_is_saved(tmp_path: Path) -> None:
    """The second move depends on the first one: a rule that forgot it would resume elsewhere."""
    settings = settings_of(composed("step"))
    trained(tmp_path / "a", settings)
    step = replace(settings.search_config.step, decay=0.0)  # type: ignore[attr-defined]
    without = replace(settings, search_config=replace(settings.search_config, step=step))
    speeds = [record["speed"] for record in contents(tmp_path / "a")["metrics.jsonl"]]
    others = [record["speed"] for record in trained(tmp_path / "b", without)["metrics.jsonl"]]
    assert speeds[0] == pytest.approx(0.05)
    assert others == pytest.approx([0.1] * len(others))
    assert len(set(speeds)) == len(speeds) >= 3


def test_a_registered_name_is_short_for_the_class(registry: None) -> None:
    from momentum import Momentum

    abps.register(Momentum, "my-momentum")
    config = from_dict(LocalSearchConfig, {"kind": "local", "step": {"kind": "my-momentum", "decay": 0.25}})
    assert config.step == Momentum(decay=0.25)
    assert to_dict(config)["step"]["kind"] == "momentum:Momentum"  # Another process need not have registered it.
    with pytest.raises(ConfigError, match="the step 'walk' is registered already"):
        abps.register(Momentum, "walk")


def test_a_registered_search_is_known_by_its_name(registry: None) -> None:
    from evolution import OnePlusOneConfig

    abps.register(OnePlusOneConfig, "one-plus-one")
    assert search_config("one-plus-one") == OnePlusOneConfig()
    spec = abps.make_task(TASK).spec
    assert abps.make_search("one-plus-one", spec).ask().role == "centre"
    with pytest.raises(ConfigError, match="did you mean 'one-plus-one'"):
        search_config("one-plus-two")


def test_a_policy_class_from_outside_is_saved_and_loaded(tmp_path: Path, registry: None) -> None:
    from network import TanhNetwork

    settings = settings_of(composed("policy"))
    trained(tmp_path / "a", settings)
    file = tmp_path / "a" / "policy" / "current.npz"
    policy = abps.load_policy(file, settings.search_config.policy)
    assert policy.space.policy_class == TanhNetwork()
    assert policy(np.zeros(2)).shape == (1,)
    with pytest.raises(ConfigError, match="unknown policy kind 'network:TanhNetwork'; import its module and"):
        abps.load_policy(file)
    abps.register(TanhNetwork, "tanh-network")
    again = abps.load_policy(file)
    observations = np.random.default_rng(0).normal(size=(5, 2))
    assert np.array_equal(again.actions(observations), policy.actions(observations))


# ---- from the command line ------------------------------------------------------------------------------------------

WORDS = ["train", "small_lqr:make_env", "--search", "mpd", "--evaluation-episodes", "1", "--quiet"]
WORDS += ["--prior", "advantage", "--probing", "maximise", "--states", "32"]
WORDS += [word for setting, part in PARTS.items() if setting != "probing" for word in (f"--{setting}", part)]
WORDS += ["--policy.units", "3", "--gp.kernel.alpha", "2", "--step.decay", "0.8", "--prior.critics.ridge", "1e-5"]
SEARCH_WORDS = ["train", "small_lqr:make_env", "--search", "evolution:OnePlusOneConfig", "--std", "0.3", "--quiet"]


def command(*words: object, cwd: Path = EXAMPLES) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_call(words), cwd=cwd, env=_env(), capture_output=True, text=True, timeout=120)


def _call(words: Any) -> list[str]:
    return [str(Path(sys.executable).with_name("abps")), *map(str, words)]


def _env() -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, "OMP_NUM_THREADS": "1"}


def kill_in_the_middle(words: list[Any], journal: Path, after: int) -> None:
    """Start a command, and kill it when its journal has some lines."""
    with subprocess.Popen(_call(words), cwd=EXAMPLES, env=_env()) as process:
        deadline = time.monotonic() + 60
        while not journal.exists() or journal.read_bytes().count(b"\n") < after:
            assert process.poll() is None, "the command ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "search"), [(WORDS, "mpd"), (SEARCH_WORDS, "evolution-OnePlusOneConfig")], ids=["parts", "search"]
)
def test_the_command_line_trains_is_killed_resumes_and_evaluates(words: list[str], search: str, tmp_path: Path) -> None:
    path = {name: tmp_path / name / "small_lqr-make_env" / search / "seed-0" for name in ("whole", "killed")}
    whole = command(*words, "--episodes", 50, "--runs", tmp_path / "whole")
    assert (whole.returncode, whole.stderr) == (0, "")
    journal = path["killed"] / "journal.jsonl"
    kill_in_the_middle([*words, "--episodes", 50, "--runs", tmp_path / "killed"], journal, after=15)
    assert not (path["killed"] / "DONE").exists()
    resumed = command("resume", path["killed"], "--quiet")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert contents(path["killed"]) == contents(path["whole"])

    evaluated = command("evaluate", path["whole"], "--episodes", 2, "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["failed"] == 0
    elsewhere = command("resume", path["whole"], "--episodes", 70, cwd=tmp_path)
    assert elsewhere.returncode == 1
    assert "there is no module" in elsewhere.stderr
    assert "go to the folder it is in, or set PYTHONPATH" in elsewhere.stderr
    assert elsewhere.stderr.count("\n") == 1


def test_settings_of_a_part_reach_it_and_help_shows_them(tmp_path: Path) -> None:
    done = command(*WORDS, "--episodes", 9, "--runs", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    search = read_settings(tmp_path / "small_lqr-make_env" / "mpd" / "seed-0").search_config
    assert isinstance(search, LocalSearchConfig)
    assert to_dict(search.policy) == {"kind": "network:TanhNetwork", "units": 3}
    assert to_dict(search.gp.kernel) == {"kind": "rational_quadratic:RationalQuadratic", "alpha": 2.0}
    assert to_dict(search.step)["decay"] == 0.8
    text = command("train", "small_lqr:make_env", "--step", "momentum:Momentum", "--help-all").stdout
    assert "--step.decay" in text
    assert "share of the last velocity that is kept" in " ".join(text.split())


def test_a_bare_policy_file_imports_nothing(tmp_path: Path) -> None:
    from network import TanhNetwork

    from abps.normaliser import Normaliser
    from abps.policies import PolicySpace

    space = PolicySpace(TanhNetwork(), abps.make_task(TASK).spec)
    space.policy(space.initial(), Normaliser.empty(2)).save(tmp_path / "policy.npz")
    script = "import sys, abps\ntry: abps.load_policy(sys.argv[1])\nexcept abps.ConfigError as error: print(error)\n"
    script += "assert 'network' not in sys.modules\n"
    words = [sys.executable, "-c", script, str(tmp_path / "policy.npz")]
    done = subprocess.run(words, cwd=EXAMPLES, env=_env(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "unknown policy kind 'network:TanhNetwork'" in done.stdout
    exported = command("export", tmp_path / "policy.npz", "--out", tmp_path / "out")
    assert exported.returncode == 1
    assert "unknown policy kind" in exported.stderr


# ---- odd parts, and wrong ones --------------------------------------------------------------------------------------

ODD = """
from dataclasses import dataclass, field
from typing import Any, ClassVar
import numpy as np
from abps.model.kernel import Kernel, Profile
from abps.search.base import SearchConfig
from abps.steps.base import Move, StepRule

@dataclass(frozen=True)
class Undocumented(Kernel):
    stretch: float = 1.0
    def profile(self, squared):
        value = np.exp(-0.5 * squared)
        return Profile(value, value.copy(), -0.5 * value)

@dataclass
class Everything:
    nothing: Any = None
    array: np.ndarray | None = None
    arrays: list[np.ndarray] = field(default_factory=list)
    named: dict[str, float] = field(default_factory=dict)
    pair: tuple[str, int] = ("", 0)
    number: int | float = 0

@dataclass(frozen=True)
class Hoarder(StepRule):
    memory_type: ClassVar[type] = Everything
    def __call__(self, given):
        old, theta = given.memory, given.model.neighbourhood.theta
        assert type(old.pair) is tuple and type(old.pair[1]) is int, old
        step = 0.05 * given.model.posterior.mu / np.linalg.norm(given.model.posterior.mu)
        array = step if old.array is None else 0.5 * (old.array + step)
        named = {**old.named, f"move {len(old.named)}": float(array[0])}
        new = Everything(None, array, [*old.arrays, step][-2:], named, ("moves", old.pair[1] + 1), old.number + 0.5)
        return Move(theta + array + 0.01 * sum(named.values()) * new.number, {}, new)

@dataclass
class OuterMemory:
    inner: Any

@dataclass(frozen=True)
class Outer(StepRule):
    inner: StepRule = Hoarder()
    def memory_type(self):
        return OuterMemory(self.inner.memory_type())
    def __call__(self, given):
        move = self.inner(given._replace(memory=given.memory.inner))
        return Move(move.centre, move.metrics, OuterMemory(move.memory))

@dataclass(frozen=True)
class Unsaveable(StepRule):
    memory_type: ClassVar[type] = Everything
    def __call__(self, given):
        return Move(given.model.neighbourhood.theta, {}, Everything(np.random.default_rng(0)))

@dataclass(frozen=True)
class Demanding(StepRule):
    length: float
    def __call__(self, given):
        return Move(given.model.neighbourhood.theta)

class Plain(StepRule):
    def __call__(self, given):
        return Move(given.model.neighbourhood.theta)

@dataclass(frozen=True)
class Half(Kernel):
    pass

def function(given):
    return given

class Stranger:
    pass

@dataclass(frozen=True)
class FailsToStart(SearchConfig):
    def make(self, spec, **options):
        return {}["nothing"]
"""

BUGGY = """
from dataclasses import dataclass
import numpy as np
from abps.steps.base import Move, StepRule

@dataclass(frozen=True)
class Late(StepRule):
    def __call__(self, given):
        theta, mu = given.model.neighbourhood.theta, given.model.posterior.mu
        moves = max(entry.iteration for entry in given.model.neighbourhood.entries)
        length = {numbers}[moves]
        return Move(theta + length * mu / np.linalg.norm(mu))
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "odd_parts.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("odd_parts", None)


def odd_settings(**parts: Any) -> RunSettings:
    document = to_dict(composed())
    for name, kind in parts.items():
        (document["gp"] if name == "kernel" else document)[name] = {"kind": f"odd_parts:{kind}"}
    return settings_of(from_dict(LocalSearchConfig, document))


def test_a_kernel_without_words_and_a_memory_of_everything(odd: Path) -> None:
    settings = odd_settings(kernel="Undocumented", step="Hoarder")
    assert trained(odd / "a", settings) == trained(odd / "b", settings, stop_after=13)
    plain = settings_of(replace(settings.search_config, gp=composed().gp))
    journal = trained(odd / "c", plain)["journal.jsonl"]
    returns = [[line["return"] for line in lines] for lines in (journal, contents(odd / "a")["journal.jsonl"])]
    assert returns[0] == pytest.approx(returns[1], rel=1e-2)  # It is the squared exponential, computed the plain way.


def test_a_rule_around_a_rule_remembers_for_both(odd: Path) -> None:
    from abps.testing import check_step

    settings = odd_settings(step="Outer")
    check_step(settings.search_config.step)  # type: ignore[attr-defined]
    assert trained(odd / "a", settings) == trained(odd / "b", settings, stop_after=13)
    inside = trained(odd / "c", odd_settings(step="Hoarder"))
    assert inside["journal.jsonl"] == contents(odd / "a")["journal.jsonl"]


@pytest.mark.parametrize(
    ("family", "kind", "sentence"),
    [
        ("step", "odd_parts:Undocumented", "is a kernel, not a step; a step derives from abps.steps.base.StepRule"),
        ("step", "odd_parts:function", "'odd_parts:function' is no step but a function"),
        ("step", "odd_parts:Stranger", "is no part, not a step"),
        ("step", "odd_parts:Plain", "must be a dataclass: write @dataclass"),
        ("step", "odd_parts:Demanding", "step.length must be given"),
        ("step", "odd_parts:Hoader", "module 'odd_parts' has no 'Hoader'; did you mean 'Hoarder'"),
        ("step", "odd_part:Hoarder", "there is no module 'odd_part' here"),
        ("step", "odd_parts:", "not of the form module:Name"),
        ("step", "wlak", "unknown step 'wlak'; did you mean 'walk'"),
        ("chart", "odd_parts:Half", "is a kernel, not a chart"),
    ],
)
def test_wrong_parts_are_refused_with_one_sentence(odd: Path, family: str, kind: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        from_dict(LocalSearchConfig, {"kind": "local", family: {"kind": kind}})
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_kernel_that_lacks_its_method_is_refused(odd: Path) -> None:
    with pytest.raises(ConfigError, match=r"the kernel 'odd_parts:Half' lacks profile; abps.model.kernel.Kernel says"):
        from_dict(GP, {"kernel": {"kind": "odd_parts:Half"}})


@pytest.mark.parametrize(
    ("flag", "kind", "sentence"),
    [
        ("--step", "odd_parts:Half", "'odd_parts:Half' is a kernel, not a step"),
        ("--step", "odd_parts:Demanding", "missing 1 required positional argument: 'length'"),
        ("--search", "odd_parts:Half", "'odd_parts:Half' is a kernel, not a search"),
        ("--search", "odd_parts:function", "the recipe 'odd_parts:function' failed: TypeError: function() takes 1"),
        ("--gp.kernel", "odd_parts:Half", "the kernel 'odd_parts:Half' lacks profile"),
    ],
)
def test_the_command_line_refuses_wrong_parts(
    odd: Path, flag: str, kind: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from abps.cli import main

    assert main(["train", "small_lqr:make_env", flag, kind, "--runs", str(odd / "runs")]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("abps train: ")
    assert error.count("\n") == 1
    assert not (odd / "runs").exists()


def test_a_memory_that_cannot_be_saved_ends_with_a_sentence(odd: Path) -> None:
    settings = odd_settings(step="Unsaveable")
    create_directory(odd / "a", settings)
    with pytest.raises(RunError, match=r"memory/step/nothing is a Generator, which a checkpoint cannot hold"):
        train(odd / "a", settings)


def test_a_search_that_cannot_be_made_ends_with_a_sentence(odd: Path) -> None:
    settings = settings_of(from_dict(SearchConfig, {"kind": "odd_parts:FailsToStart"}))
    create_directory(odd / "a", settings)
    with pytest.raises(RunError, match=r"the run stopped with KeyError: 'nothing' \(.*odd_parts.py, line \d+\)"):
        train(odd / "a", settings)
    assert "Traceback" in (odd / "a" / "FAILED").read_text()


def test_a_class_inside_a_function_is_refused_before_anything_runs(tmp_path: Path) -> None:
    from momentum import Momentum

    class Local(Momentum):
        pass

    settings = settings_of(replace(composed(), step=Local()))
    with pytest.raises(ConfigError, match="define the class at the top of a module of its own"):
        create_directory(tmp_path / "a", settings)
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_a_bug_ends_the_run_with_a_sentence_and_once_mended_it_goes_on(tmp_path: Path) -> None:
    words = ["train", EXAMPLES.name, "--search", "mpd", "--step", "buggy:Late", "--plan.window", 6, "--plan.probes", 3]
    words += ["--plan.centre-episodes", 1, "--episodes", 24, "--quiet", "--runs"]
    words[1] = "small_lqr:make_env"
    (tmp_path / "small_lqr.py").write_text((EXAMPLES / "small_lqr.py").read_text())
    (tmp_path / "buggy.py").write_text(BUGGY.format(numbers="(0.1, 0.2)"))  # The third move fails.
    broken = command(*words, "broken", cwd=tmp_path)
    run = tmp_path / "broken" / "small_lqr-make_env" / "mpd" / "seed-0"
    assert broken.returncode == 1
    assert broken.stderr.startswith("abps train: the run stopped with IndexError: tuple index out of range (")
    assert "buggy.py, line 11)" in broken.stderr
    assert "Traceback" not in broken.stderr
    assert broken.stderr.count("\n") == 1
    failed = (run / "FAILED").read_text()
    assert failed.startswith("Traceback")
    assert "length = (0.1, 0.2)[moves]" in failed
    again = command("resume", run, "--quiet", cwd=tmp_path)
    assert again.returncode == 1
    assert "IndexError" in again.stderr
    (tmp_path / "buggy.py").write_text(BUGGY.format(numbers="(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)"))
    mended = command("resume", run, "--quiet", cwd=tmp_path)
    assert (mended.returncode, mended.stderr) == (0, "")
    assert not (run / "FAILED").exists()
    whole = command(*words, "whole", cwd=tmp_path)
    assert whole.returncode == 0
    assert contents(run) == contents(tmp_path / "whole" / "small_lqr-make_env" / "mpd" / "seed-0")


def test_a_study_takes_searches_and_parts_from_outside() -> None:
    from abps.study.grid import Axis, Grid, make_cells

    name = "evolution:OnePlusOneConfig"
    grid = Grid(
        tasks=("small_lqr:make_env",),
        searches=(name, "mpd"),
        seeds=(0,),
        episodes={"small_lqr:make_env": 10},
        axes=(Axis((f"{name}.std",), (("0.1",), ("0.3",))),),
        fixed={"mpd.step": "momentum:Momentum", "mpd.step.decay": "0.25"},
    )
    cells = [cell.settings for cell in make_cells(grid, Path("runs"))]
    assert [cell.variant for cell in cells] == ["std=0.1", "std=0.3", ""]
    assert [to_dict(cell.search_config)["kind"] for cell in cells] == [name, name, "local"]
    assert to_dict(cells[2].search_config)["step"]["decay"] == 0.25


def test_a_recipe_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe: Callable[[str, str], Any] = lambda task, preset: {}["x"]  # noqa: E731
    monkeypatch.setattr("train_with_them.recipe", recipe)
    with pytest.raises(ConfigError, match="the recipe 'train_with_them:recipe' failed: KeyError: 'x'"):
        search_config("train_with_them:recipe")
