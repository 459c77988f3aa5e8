"""`abps video RUN --out FILE.mp4|.gif`: film one episode of a run's policy, without a display."""

import argparse
import json
from pathlib import Path

from abps.errors import ConfigError, RunError

__all__ = ["HELP", "configure", "execute"]

HELP = "Film one episode of a run's policy as MP4 or GIF; needs no display."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("--out", type=Path, default=None, help="file to write, .mp4 or .gif (default: RUN/video.mp4)")
    parser.add_argument("--which", choices=("best", "current"), default="best", help="which policy (default: best)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial state (default: 0)")
    parser.add_argument(
        "--steps", type=int, default=0, help="stop after so many steps (default: at the end of the episode)"
    )
    parser.add_argument("--size", type=int, default=480, help="width and height in pixels (default: 480)")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    """Film the episode and say what it returned."""
    from abps.cli.export import policy_file
    from abps.export.video import record_video
    from abps.policies import load_policy
    from abps.run.directory import read_settings

    if arguments.steps < 0 or arguments.seed < 0:
        raise ConfigError("--steps and --seed must not be negative")
    settings = read_settings(arguments.run)
    if settings.hardware is not None:
        raise RunError(f"{arguments.run} is a run on real hardware: there is no simulator that could draw it")
    policy = load_policy(policy_file(arguments.run, arguments.which), settings.search_config.policy)
    out = arguments.out or arguments.run / "video.mp4"
    video = record_video(policy, settings.task, out, seed=arguments.seed, steps=arguments.steps, size=arguments.size)
    if arguments.json:
        print(json.dumps({**video._asdict(), "path": str(video.path)}))
    elif not arguments.quiet:
        film = f"{video.frames} frames at {video.fps:g} per second"
        print(f"wrote {out} ({film}); {video.steps} steps, return {video.total:.2f}")
    return 0
