#!/usr/bin/env bash
# The path of a newcomer, timed: an empty home, a fresh clone, and everything from `make run` to a robot with a limit.
#
#     bash benchmarks/newcomer/path.sh [FOLDER]       # the repository is cloned to FOLDER/abps
#
# Needs git, make, Python 3.11 and gcc; with Chromium it also opens the reports. Stops at the first command that fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder/home"
export HOME=$folder/home OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
unset PYTHONPATH VIRTUAL_ENV
times=$folder/times.txt
: >"$times"
cd "$folder"

step() { # step NAME COMMAND…: run it, and note the seconds it took
  local name=$1 began
  shift
  printf '\n== %s\n' "$name"
  began=$(date +%s.%N)
  "$@"
  printf '%6.1f s  %s\n' "$(echo "$(date +%s.%N) $began" | awk '{print $1 - $2}')" "$name" >>"$times"
}

own_environment() { cp "$here"/{gimbal.py,own_code.py,main.c,robot.yaml} .; }

train() { abps train gimbal:make_env --horizon 150 --episodes 60; }

compare() {
  pip install --quiet --disable-pip-version-check 'abps[peers]'
  abps compare gimbal:make_env --searches abs,cma --seeds 0-2 --episodes 60 --horizon 150
}

look() { # at 1280 pixels; the browser tests open reports at 390, too
  local browser
  browser=$(command -v chromium || command -v google-chrome) || { echo "no Chromium: not looked at"; return 0; }
  for size in 1280,3000 500,3000; do
    "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=5000 \
      --window-size=$size --screenshot="$PWD/report-${size%,*}.png" "file://$PWD/runs/report.html" 2>/dev/null
    test -s "report-${size%,*}.png"
  done
}

export_c() {
  abps export runs/gimbal-make_env/abs/seed-0 --which current --format c --out robot
  gcc -Wall -Wextra -Werror -std=c99 -O2 -Irobot main.c robot/policy.c -lm -o act
  ./act <actions.txt
}

twenty_episodes() {
  { # The robot's side is the code of docs/hardware.md, as it stands there, and the loop of an episode.
    echo "import sys"
    sed -n '/^import numpy as np$/,/^    return act$/p' docs/hardware.md | sed 's/"query.npz"/sys.argv[1]/'
    cat "$here/robot_side.py.txt"
  } >robot.py
  abps ask runs/robot --new robot.yaml --search abs --episodes 20
  for _ in $(seq 20); do
    python robot.py runs/robot/query.npz episode.npz
    abps tell runs/robot --trajectory episode.npz
    abps ask runs/robot >asked.txt
  done
  cat asked.txt
  abps watch runs/robot --once
  abps watch runs/robot --json | grep -q '"told": 20' # each of them kept the limit, or robot.py had stopped
  abps report runs/robot
}

step "clone" git clone --quiet "$here/../.." abps
cd abps
step "make run: environment, 300 episodes of pendulum, report, evaluation" make run
export PATH=$PWD/.venv/bin:$PATH
step "an own environment, 60 episodes" eval "own_environment; train"
step "compare with CMA-ES: 3 seeds each" compare
step "look at the report" look
step "the policy in own code" python own_code.py
step "export to C, compile, compare" export_c
step "twenty episodes on a simulated robot, ask and tell" twenty_episodes
printf '\n'
cat "$times"
