"""What it costs to estimate the mean function from a subsample of the visited states: error against the full sum,
and time.

    python benchmarks/micro/states_subsample.py [--task cheetah] > benchmarks/micro/states_subsample.txt

One first outer iteration of ABS (centre and Gaussian design) with all states kept; then the centre's states are
subsampled again and again. Errors of m̂ at the window's points are in units of its spread over the window; the
gradient's is 1 − cosine with the full sum's.
"""

import argparse
import time

import numpy as np

from abps.critics.lstd_config import Lstd
from abps.data.visits import Visits, systematic_sample
from abps.model.advantage import advantage_features, advantage_gradients
from abps.model.prior import AdvantageLearner, AdvantagePrior
from abps.rollouts.episode import run_episode
from abps.search.local import LocalSearch
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.gym import make_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="cheetah")
    parser.add_argument("--draws", type=int, default=10)
    arguments = parser.parse_args()
    task = make_task(arguments.task)
    env = task.make_env()
    config = replace(search_config("abs", arguments.task, "paper"), prior=AdvantagePrior(critics=Lstd()), states=0)
    search, centre = LocalSearch(task.spec, config, seed=0), None
    for _ in range(2):
        centre = centre or search.incumbent
        for query in search.open_queries():
            search.tell(query, [run_episode(env, query.policy, 100 * query.id + k) for k in range(query.episodes)])
    near, learner = replace(search.neighbourhood(), centre=centre), search.prior
    assert isinstance(learner, AdvantageLearner)
    critics, trusted, points, visits = learner.critics, learner.memory.weights, near.parameters, near.centre_visits
    start = time.process_time()
    whole = advantage_features(critics, centre, visits, points) @ trusted
    slope = advantage_gradients(critics, centre, visits) @ trusted
    seconds = time.process_time() - start
    print(
        f"{arguments.task}: {len(visits.weights)} states of the centre, {len(points)} points, d = "
        f"{search.policies.size}"
    )
    print(f"all states: {seconds:.2f} CPU s")
    for size in (64, 128, 256, 512, 1024):
        errors, cosines, spent = [], [], 0.0
        for draw in range(arguments.draws):
            kept, weights = systematic_sample(
                visits.weights, min(size, len(visits.weights)), np.random.default_rng(draw)
            )
            part = Visits(visits.states[kept], visits.actions[kept], weights)
            start = time.process_time()
            features = advantage_features(critics, centre, part, points) @ trusted
            gradient = advantage_gradients(critics, centre, part) @ trusted
            spent += time.process_time() - start
            errors.append(np.sqrt(np.mean((features - whole) ** 2)) / whole.std())
            cosines.append(gradient @ slope / np.linalg.norm(gradient) / np.linalg.norm(slope))
        print(
            f"{size:5d} states: rms error of m̂ {np.mean(errors):.3f} of its spread, "
            f"1 − cosine of ∇m̂ {1 - np.mean(cosines):.4f}, {spent / arguments.draws:.3f} CPU s"
        )


if __name__ == "__main__":
    main()
