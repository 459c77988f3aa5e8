"""Draw the paper's Figure 1: how the acquisition function leans on the critics, and how probes correct them.

    python examples/figure_1.py [--out figure_1.png] [--dark]     # a task with two parameters, about five seconds
    python examples/figure_1.py --run runs/hopper/abs/seed-0       # a run on disk: its last finished outer iteration

Without a run, ABS searches a linear-quadratic task with two parameters, so that the plane shown is the whole parameter space. Its critics
are small on purpose: ∇m̂ (pink) is off, and the posterior gradient μ (violet) leaves it as soon as probes contradict it. Each probe is put
where the acquisition of the panel before is largest, and run in the environment.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from abps.config import AbsConfig, CriticsConfig, GpConfig
from abps.rollouts.episode import run_episode
from abps.search.abs import Abs
from abps.study.figures import Acquisition, acquisition_slices
from abps.study.gallery import save
from abps.study.slices import acquisition_slice, rewound, run_slices
from abps.study.style import DARK, LIGHT
from abps.tasks.gym import Task, make_task
from abps.tasks.lqr import make_env

CONFIG = AbsConfig(
    centre_episodes=4,
    probes=6,
    window=21,
    design_std=0.02,
    gp=GpConfig(lengthscale_low=0.01, lengthscale_high=0.05),
    critics=CriticsConfig(
        members=3,
        groups=3,
        features=48,
        feature_kind="relu",
        feature_bias=1.0,
        ridges=(1e-2, 1e-1, 1.0),
        traces=(0.0,),
        discount_cut=0.0,
        discount_weight=0.0,
        replay=20_000,
    ),
)
TITLES = ("t = 0: observed θ", "t = 1: observed θ, z₁", "t = 2: observed θ, z₁, z₂")


def panels(iterations: int = 2, seed: int = 1) -> list[Acquisition]:
    """Search for some iterations, tell the next centre, then place two probes and look before and after each."""
    env = make_env(2, 1, 3, noise=0.03, fixed_start=True, horizon=100, action_bound=1.0)
    task = make_task(env, name="lqr", gamma=0.95, normalise=False, policy="direct")
    search = Abs(task.spec, CONFIG, seed=seed)
    while search.iteration < iterations or search.stage == "centre":
        query = search.ask()
        search.tell(query, [run_episode(env, query.policy, seed=10 * query.id + k) for k in range(query.episodes)])
    state = rewound(search.state(), 0)
    shown = []
    for title in TITLES:
        search.load(state)
        shown.append(acquisition_slice(search, np.eye(2), title))
        truth = env.system.gradient(search.centre).ravel()
        cosines = [_cosine(truth, arrow) for arrow in (search.mean_gradient(), search.posterior.mu)]
        print(f"{title:<28} cosine with the true gradient: ∇m̂ {cosines[0]:+.2f}, μ {cosines[1]:+.2f}")
        state["own"]["window"] = [*state["own"]["window"], _tried(search, task, shown[-1].maximum)]
    return shown


def _tried(search: Abs, task: Task, offset: np.ndarray) -> dict[str, Any]:
    """Run the policy at an offset from the centre; return what the window keeps of it."""
    policy = search.incumbent
    parameters = policy.parameters + offset
    trajectory = run_episode(task.make_env(), type(policy)(task.spec, parameters, policy.normaliser), seed=0)
    return {
        "parameters": parameters,
        "normaliser": policy.normaliser.state(),
        "returns": np.array([search.objective(trajectory)]),
        "role": "probe",
        "iteration": search.iteration,
        "visits": None,
    }


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
