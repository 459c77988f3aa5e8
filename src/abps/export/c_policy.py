"""A policy as C99: one header, one source file, doubles, no memory allocated, nothing but <math.h> needed."""

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

/* Write the action for one raw observation (it is normalised here). Reentrant; allocates nothing; `action` stays inside
   the action bounds for every finite observation. */
void abps_policy_act(const double observation[ABPS_OBSERVATION_SIZE], double action[ABPS_ACTION_SIZE]);

#ifdef __cplusplus
}}
#endif
#endif
"""

SOURCE = """/* Deterministic policy for "{task}", exported by abps.

   Library:  cc -std=c99 -O2 -c policy.c            (link with -lm)
   Program:  cc -std=c99 -O2 -DABPS_POLICY_MAIN policy.c -o policy -lm
             reads observations from standard input, prints one action per line. */
#include "policy.h"

#include <math.h>

static const double weights[ABPS_ACTION_SIZE][ABPS_OBSERVATION_SIZE] = {{
{weights}
}};
static const double observation_mean[ABPS_OBSERVATION_SIZE] = {{{mean}}};
static const double observation_std[ABPS_OBSERVATION_SIZE] = {{{std}}};
{bounds}

void abps_policy_act(const double observation[ABPS_OBSERVATION_SIZE], double action[ABPS_ACTION_SIZE]) {{
    for (int i = 0; i < ABPS_ACTION_SIZE; i++) {{
        double latent = 0.0;
        for (int j = 0; j < ABPS_OBSERVATION_SIZE; j++) {{
            latent += weights[i][j] * ((observation[j] - observation_mean[j]) / observation_std[j]);
        }}
{squash}
    }}
}}

#ifdef ABPS_POLICY_MAIN
#include <stdio.h>

int main(void) {{
    double observation[ABPS_OBSERVATION_SIZE], action[ABPS_ACTION_SIZE];
    for (;;) {{
        for (int j = 0; j < ABPS_OBSERVATION_SIZE; j++) {{
            if (scanf("%lf", &observation[j]) != 1) {{
                return j == 0 ? 0 : 1;
            }}
        }}
        abps_policy_act(observation, action);
        for (int i = 0; i < ABPS_ACTION_SIZE; i++) {{
            printf(i ? " %.17g" : "%.17g", action[i]);
        }}
        printf("\\n");
    }}
}}
#endif
"""

SQUASH = {
    "tanh": "        action[i] = action_centre[i] + action_half[i] * tanh(latent);",
    "clip": """        latent += action_centre[i];
        action[i] = latent < action_low[i] ? action_low[i] : (latent > action_high[i] ? action_high[i] : latent);""",
}


def write_c(form: LinearPolicyArrays, directory: Path) -> list[Path]:
    """Write `policy.h` and `policy.c`; return the files."""
    header, source = Path(directory) / "policy.h", Path(directory) / "policy.c"
    used = {"tanh": ("centre", "half"), "clip": ("centre", "low", "high")}[form.squash]
    bounds = [f"static const double action_{n}[ABPS_ACTION_SIZE] = {{{_numbers(getattr(form, n))}}};" for n in used]
    weights = "\n".join(f"    {{{_numbers(row)}}}," for row in form.weights)
    sizes = {"task": safe_text(form.task).replace("?", "_"), "s": form.mean.size, "a": form.low.size}
    header.write_text(HEADER.format(**sizes), encoding="utf-8")
    text = SOURCE.format(
        **sizes, weights=weights, mean=_numbers(form.mean), std=_numbers(form.std), bounds="\n".join(bounds),
        squash=SQUASH[form.squash],
    )  # fmt: skip
    source.write_text(text, encoding="utf-8")
    return [header, source]


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


def _numbers(values: Array) -> str:
    return ", ".join(literal(value) for value in np.asarray(values))
