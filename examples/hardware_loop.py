"""A whole run on "real hardware" from Python: ask, let another process run the episode, tell. Stop and start it any
time.

    python examples/hardware_loop.py [RUN] [EPISODES]

The same with the command line alone is in docs/hardware.md. The robot (examples/hardware_robot.py) runs in a process
of its own and knows numpy only; between two calls there may be seconds or days.
"""

import subprocess
import sys
from pathlib import Path

from abps.run.hardware import create_hardware_run, open_hardware_run
from abps.search.budget import BudgetConfig
from abps.search.plan import CentreThenProbes
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.config import HardwareConfig, TaskConfig

ROBOT = Path(__file__).with_name("hardware_robot.py")


def create(path: Path, episodes: int) -> None:
    """Describe the robot once: what it observes, what it can do, how long an episode is."""
    create_hardware_run(
        path,
        TaskConfig(name="pendulum-robot", horizon=100, gamma=0.98),
        HardwareConfig(observations=3, action_low=(-2.0,), action_high=(2.0,)),
        search="mpd",
        config=replace(search_config("mpd", "pendulum-robot"), plan=CentreThenProbes(2, 4, 13)),
        budget=BudgetConfig(episodes=episodes),
    )


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/robot")
    if not (path / "config.yaml").exists():
        create(path, int(sys.argv[2]) if len(sys.argv) > 2 else 26)
    with open_hardware_run(path) as robot:
        while (request := robot.ask()) is not None:
            policy, episode = robot.write_policy(request), path / "episode.npz"
            done = subprocess.run([sys.executable, str(ROBOT), str(policy), str(episode)])
            recorded = robot.tell_file(episode) if done.returncode == 0 else robot.fail("the robot stopped")
            print(f"episode {recorded.episode} ({request.role}): return {recorded.value}")
        print("done:", "; ".join(robot.stopped.values()))


if __name__ == "__main__":
    main()
