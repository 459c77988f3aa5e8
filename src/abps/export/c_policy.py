"""A policy as C99: one header, one source file, doubles, no memory allocated, nothing but <math.h> needed.

A policy at rest is one function; one that moves along a path, or whose rate of the actions is limited, has a small
state, started anew for every episode.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError
from abps.export.form import LinearPolicyArrays, literal, safe_text
from abps.export.numpy_policy import through_program

__all__ = ["act_c", "compiler", "write_c"]

HEADER = """/* Deterministic policy for "{task}", exported by abps. */
#ifndef ABPS_POLICY_H
#define ABPS_POLICY_H

#define ABPS_OBSERVATION_SIZE {s}
#define ABPS_ACTION_SIZE {a}

#ifdef __cplusplus
extern "C" {{
#endif

{functions}

#ifdef __cplusplus
}}
#endif
#endif
"""

ACT_HEADER = """/* Write the action for one raw observation (it is normalised here). Reentrant; allocates nothing;
   `action` stays inside the action bounds for every finite observation. */
void abps_policy_act(const double observation[ABPS_OBSERVATION_SIZE], double action[ABPS_ACTION_SIZE]);"""

STEP_HEADER = """/* Where an episode stands: {why}. */
typedef struct {{
    long knot; /* the last knot that was passed */
    long step; /* steps since then */{member}
}} abps_policy_state;

/* Begin an episode. */
void abps_policy_start(abps_policy_state *state);

/* Write the action for the next raw observation of the episode (it is normalised here), once per step. Reentrant: all
   that changes is in `state`; allocates nothing; `action` stays inside the action bounds for every finite
   observation. */
void abps_policy_step(abps_policy_state *state, const double observation[ABPS_OBSERVATION_SIZE],
                      double action[ABPS_ACTION_SIZE]);"""

SOURCE = """/* Deterministic policy for "{task}", exported by abps.

   Library:  cc -std=c99 -O2 -c policy.c            (link with -lm)
   Program:  cc -std=c99 -O2 -DABPS_POLICY_MAIN policy.c -o policy -lm
             reads observations from standard input, prints one action per line. */
#include "policy.h"

#include <math.h>

{parameters}
static const double observation_mean[ABPS_OBSERVATION_SIZE] = {{{mean}}};
static const double observation_std[ABPS_OBSERVATION_SIZE] = {{{std}}};
{bounds}

{functions}

#ifdef ABPS_POLICY_MAIN
#include <stdio.h>

int main(void) {{
    double observation[ABPS_OBSERVATION_SIZE], action[ABPS_ACTION_SIZE];
{begin}    for (;;) {{
        for (int j = 0; j < ABPS_OBSERVATION_SIZE; j++) {{
            if (scanf("%lf", &observation[j]) != 1) {{
                return j == 0 ? 0 : 1;
            }}
        }}
        {call};
        for (int i = 0; i < ABPS_ACTION_SIZE; i++) {{
            printf(i ? " %.17g" : "%.17g", action[i]);
        }}
        printf("\\n");
    }}
}}
#endif
"""

ACT = """void abps_policy_act(const double observation[ABPS_OBSERVATION_SIZE], double action[ABPS_ACTION_SIZE]) {{
    for (int i = 0; i < ABPS_ACTION_SIZE; i++) {{
        double latent = bias[i];
        for (int j = 0; j < ABPS_OBSERVATION_SIZE; j++) {{
            latent += weights[i][j] * ((observation[j] - observation_mean[j]) / observation_std[j]);
        }}
{squash}
    }}
}}"""

MEMBER = """
    double action[ABPS_ACTION_SIZE]; /* the last one: none differs from it by more than the rate */"""

STEP = """void abps_policy_start(abps_policy_state *state) {{
    state->knot = 0;
    state->step = 0;{begin}
}}

void abps_policy_step(abps_policy_state *state, const double observation[ABPS_OBSERVATION_SIZE],
                      double action[ABPS_ACTION_SIZE]) {{
    const long before = state->knot, after = before + 1 < KNOTS ? before + 1 : before;
    const double share = (double)state->step / KNOT_INTERVAL;
    for (int i = 0; i < ABPS_ACTION_SIZE; i++) {{
        double latent = (1.0 - share) * bias[before][i] + share * bias[after][i];
        for (int j = 0; j < ABPS_OBSERVATION_SIZE; j++) {{
            const double weight = (1.0 - share) * weights[before][i][j] + share * weights[after][i][j];
            latent += weight * ((observation[j] - observation_mean[j]) / observation_std[j]);
        }}
{squash}{limit}
    }}
    if (after > before && ++state->step == KNOT_INTERVAL) {{ /* After the last knot nothing moves. */
        state->knot = after;
        state->step = 0;
    }}
}}"""

BEGIN = """
    for (int i = 0; i < ABPS_ACTION_SIZE; i++) {
        state->action[i] = action_start[i];
    }"""

LIMIT = """
        const double least = state->action[i] - action_rate[i], most = state->action[i] + action_rate[i];
        action[i] = action[i] < least ? least : (action[i] > most ? most : action[i]);
        state->action[i] = action[i];"""

SQUASH = {
    "tanh": "        action[i] = action_centre[i] + action_half[i] * tanh(latent);",
    "clip": """        latent += action_centre[i];
        action[i] = latent < action_low[i] ? action_low[i] : (latent > action_high[i] ? action_high[i] : latent);""",
}


def write_c(form: LinearPolicyArrays, directory: Path) -> list[Path]:
    """Write `policy.h` and `policy.c`; return the files."""
    header, source = Path(directory) / "policy.h", Path(directory) / "policy.c"
    used = {"tanh": ("centre", "half"), "clip": ("centre", "low", "high")}[form.squash]
    used += ("rate", "start") if form.rate is not None else ()
    bounds = [f"static const double action_{n}[ABPS_ACTION_SIZE] = {{{_numbers(getattr(form, n))}}};" for n in used]
    sizes = {"task": safe_text(form.task).replace("?", "_"), "s": form.mean.size, "a": form.low.size}
    state = form.has_state
    header.write_text(HEADER.format(**sizes, functions=_declarations(form)), encoding="utf-8")
    text = SOURCE.format(
        **sizes, parameters=_parameters(form), mean=_numbers(form.mean), std=_numbers(form.std),
        bounds="\n".join(bounds), functions=_functions(form),
        begin="    abps_policy_state state;\n    abps_policy_start(&state);\n" if state else "",
        call="abps_policy_step(&state, observation, action)" if state else "abps_policy_act(observation, action)",
    )  # fmt: skip
    source.write_text(text, encoding="utf-8")
    return [header, source]


def _declarations(form: LinearPolicyArrays) -> str:
    if not form.has_state:
        return ACT_HEADER
    moves = "the weights of this policy move along a path while the episode runs"
    why = moves if form.path is not None else "the rate of its actions is limited"
    return STEP_HEADER.format(why=why, member=MEMBER if form.rate is not None else "")


def _functions(form: LinearPolicyArrays) -> str:
    squash = SQUASH[form.squash]
    if not form.has_state:
        return ACT.format(squash=squash)
    limited = form.rate is not None
    return STEP.format(squash=squash, begin=BEGIN if limited else "", limit=LIMIT if limited else "")


def _parameters(form: LinearPolicyArrays) -> str:
    """The weights and the bias, or those of all knots."""
    sizes = "[ABPS_ACTION_SIZE][ABPS_OBSERVATION_SIZE]"
    if not form.has_state:
        return (
            f"static const double weights{sizes} = {{\n{_rows(form.weights)}\n}};\n"
            f"static const double bias[ABPS_ACTION_SIZE] = {{{_numbers(form.bias)}}};"
        )
    path = form.knots
    knots = "\n".join(f"    {{\n{_rows(weights, 8)}\n    }}," for weights in path.weights)
    return (
        f"#define KNOTS {len(path.weights)}\n"
        f"#define KNOT_INTERVAL {int(path.interval)} /* steps between two knots */\n\n"
        f"static const double weights[KNOTS]{sizes} = {{\n{knots}\n}};\n"
        f"static const double bias[KNOTS][ABPS_ACTION_SIZE] = {{\n{_rows(path.bias)}\n}};"
    )


def _rows(matrix: Array, indent: int = 4) -> str:
    return "\n".join(f"{' ' * indent}{{{_numbers(row)}}}," for row in matrix)


def compiler() -> str | None:
    """The C compiler of this machine, if there is one."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def act_c(directory: Path, observations: Array) -> Array:
    """Actions of the written files, compiled and run: (m, s) → (m, a).

    Raises:
        ConfigError: there is no compiler, or it refuses the file.
    """
    found = compiler()
    if found is None:
        raise ConfigError("no C compiler (cc, gcc or clang) found")
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "policy")
        source = str(Path(directory) / "policy.c")
        options = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DABPS_POLICY_MAIN"]
        done = subprocess.run(
            [found, *options, source, "-o", program, "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ConfigError(f"{found} cannot compile the exported policy: {done.stderr[-500:]}")
        return through_program([program], observations)


def _numbers(values: Array | None) -> str:
    return ", ".join(literal(value) for value in np.asarray(values))
