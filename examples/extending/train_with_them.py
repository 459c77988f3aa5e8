"""Train with parts that are not in the package: composed in Python, and by the command line.

cd examples/extending
python train_with_them.py [folder]                                                # a few seconds
abps train small_lqr:make_env --search train_with_them:recipe --step.decay 0.8    # the same, with another setting
abps train small_lqr:make_env --search evolution:OnePlusOneConfig                 # a search of one's own
"""

import sys
import tempfile
from pathlib import Path

from momentum import Momentum
from network import TanhNetwork
from quadratic_critic import QuadraticCritic
from rational_quadratic import RationalQuadratic
from return_variance import ReturnVariance
from smaller_parts import FirstStatistics, FreshDesign, OnlyGood, RestartEvery, Scaled

import abps
from abps.acquisition.probing import MaximiseCriterion
from abps.model.gp import GP
from abps.model.prior import AdvantagePrior
from abps.run.config import RunConfig
from abps.run.directory import RunSettings, create_directory, run_path
from abps.run.loop import TrainingResult, train
from abps.search.local import LocalSearchConfig

abps.register(Momentum, "momentum")  # One line: `--step momentum` is known wherever this module was imported.


def recipe(task: str, preset: str) -> LocalSearchConfig:
    """A local search made of parts from outside."""
    return LocalSearchConfig(
        policy=TanhNetwork(units=3),
        observations=FirstStatistics(),
        chart=Scaled(),
        prior=AdvantagePrior(critics=QuadraticCritic(), aggregation=OnlyGood()),
        gp=GP(kernel=RationalQuadratic(alpha=2.0), lengthscale_low=0.05, lengthscale_high=0.5),
        probing=MaximiseCriterion(ReturnVariance(), radius=0.2),
        step=Momentum(length=0.2),
        plan=FreshDesign(std=0.1),
        restarts=RestartEvery(episodes=60),
        states=64,
    )


def main(folder: Path, episodes: int = 140) -> TrainingResult:
    """Train, and print what came of it."""
    task = abps.TaskConfig(id="small_lqr:make_env", name="small-lqr", gamma=0.95, horizon=30)
    search = recipe(task.name, "cpu")
    budget = abps.BudgetConfig(episodes=episodes)
    settings = RunSettings(task, "train_with_them:recipe", search, budget, RunConfig(evaluation_episodes=1), seed=0)
    path = run_path(folder, settings)
    create_directory(path, settings)
    result = train(path, settings)
    policy = abps.load_policy(path / "policy" / "best.npz", search.policy)
    first = search.policy.initial(policy.spec)
    env = abps.make_task(task).make_env()
    before = abps.run_episode(env, policy.space.policy(first, policy.normaliser), seed=0).total()
    after = abps.run_episode(env, policy, seed=0).total()
    print(f"{result.episodes} episodes in {result.seconds:.1f} s: the return went from {before:.2f} to {after:.2f}")
    return result


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
