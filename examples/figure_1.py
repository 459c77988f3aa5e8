"""Draw the paper's Figure 1: how the acquisition function follows the critics, and how probes correct them.

    python examples/figure_1.py [--out figure_1.png] [--dark]     # a task with two parameters, about five seconds
    python examples/figure_1.py --run runs/hopper/abs/seed-0       # a run on disk: its last finished outer iteration

Without a run, ABS searches a linear-quadratic task with two parameters, so that the plane shown is the whole parameter
space. Its critics are small on purpose: ∇m̂ (pink) is wrong, and the posterior gradient μ (violet) leaves it as soon
as probes contradict it. Each probe is put where the acquisition of the panel before is largest, and run in the
environment.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from abps.acquisition.expected_ascent import ExpectedAscent
from abps.acquisition.probing import MaximiseCriterion
from abps.critics.lstd_config import Lstd, Relu
from abps.data.window import Point
from abps.model.gp import GP
from abps.model.prior import AdvantagePrior
from abps.policies.linear import ClippedLinear
from abps.policies.policy import Policy
from abps.rollouts.episode import run_episode
from abps.search.local import LocalSearch, LocalSearchConfig
from abps.search.plan import CentreThenProbes
from abps.steps.direction import ScaledDirection
from abps.study.figures import Acquisition, acquisition_slices
from abps.study.gallery import save
from abps.study.slices import acquisition_slice, reach, run_slices
from abps.study.style import DARK, LIGHT
from abps.tasks.gym import Task, make_task
from abps.tasks.lqr import make_env

CRITICS = Lstd(
    members=3,
    groups=3,
    features=Relu(size=48, bias=1.0),
    ridges=(1e-2, 1e-1, 1.0),
    traces=(0.0,),
    discount_cut=0.0,
    discount_weight=0.0,
    replay=20_000,
)
RADIUS = 0.1
CONFIG = LocalSearchConfig(
    policy=ClippedLinear(),
    prior=AdvantagePrior(critics=CRITICS),
    gp=GP(lengthscale_low=0.01, lengthscale_high=0.05),
    probing=MaximiseCriterion(ExpectedAscent(), radius=RADIUS, start_std=0.02),
    step=ScaledDirection(0.0025),
    plan=CentreThenProbes(centre_episodes=4, probes=6, window=21, design_std=0.02),
    states=256,
)
TITLES = ("t = 0: observed θ", "t = 1: observed θ, z₁", "t = 2: observed θ, z₁, z₂")


def panels(iterations: int = 2, seed: int = 1) -> list[Acquisition]:
    """Search for some iterations, tell the next centre, then place two probes and look before and after each."""
    env = make_env(2, 1, 3, noise=0.03, fixed_start=True, horizon=100, action_bound=1.0)
    task = make_task(env, name="lqr", gamma=0.95)
    search = LocalSearch(task.spec, CONFIG, seed=seed)
    while search.iteration < iterations or search.memory.stage != "centre":
        query = search.ask()
        search.tell(query, [run_episode(env, query.policy, seed=10 * query.id + k) for k in range(query.episodes)])
    whole = search.model.neighbourhood
    near, shown = replace(whole, entries=(whole.newest_centre,)), []
    for title in TITLES:
        model = CONFIG.gp.model(near, search.prior.mean(near), search.model.hyper)
        shown.append(acquisition_slice(model, ExpectedAscent(), np.eye(2), title, reach(model, RADIUS)))
        truth = env.system.gradient(near.centre.parameters).ravel()
        cosines = [_cosine(truth, arrow) for arrow in (model.mean_gradient(), model.posterior.mu)]
        print(f"{title:<28} cosine with the true gradient: ∇m̂ {cosines[0]:+.2f}, μ {cosines[1]:+.2f}")
        near = replace(near, entries=(*near.entries, _tried(search, near.centre, task, shown[-1].maximum)))
    return shown


def _tried(search: LocalSearch, centre: Policy, task: Task, offset: np.ndarray) -> Point:
    """Run the policy at an offset from the centre; return what the window keeps of it."""
    parameters = centre.parameters + offset
    trajectory = run_episode(task.make_env(), centre.space.policy(parameters, centre.normaliser), seed=0)
    returns = np.array([search.objective.total(trajectory)])
    return Point(parameters, centre.normaliser, returns, "probe", search.iteration, None)


def _cosine(left: np.ndarray, right: np.ndarray) -> float:
    return float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the paper's Figure 1.")
    parser.add_argument("--run", type=Path, help="a run directory of abs, mpd or gibo; default: a small task, run now")
    parser.add_argument("--out", type=Path, default=Path("figure_1.png"), help="file to write: .png, .svg or .pdf")
    parser.add_argument("--dark", action="store_true", help="for a dark screen")
    arguments = parser.parse_args()
    shown = run_slices(arguments.run) if arguments.run else panels()
    save(acquisition_slices(shown, theme=DARK if arguments.dark else LIGHT), arguments.out)
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
