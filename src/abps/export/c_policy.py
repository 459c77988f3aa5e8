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
from abps.export.form import PolicyArrays, literal, moves, safe_text
from abps.export.numpy_policy import through_program
from abps.policies.layers import Layer

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

STEP_HEADER = """/* Where an episode stands: during an episode {why}. */
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
{layers}
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
{layers}{limit}
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
    for (int i = 0; i < ABPS_ACTION_SIZE; i++) {
        const double least = state->action[i] - action_rate[i], most = state->action[i] + action_rate[i];
        action[i] = action[i] < least ? least : (action[i] > most ? most : action[i]);
        state->action[i] = action[i];
    }"""

NORMALISE = """    double values_0[ABPS_OBSERVATION_SIZE];
    for (int j = 0; j < ABPS_OBSERVATION_SIZE; j++) {
        values_0[j] = (observation[j] - observation_mean[j]) / observation_std[j];
    }"""

LAYER = """{declared}    for (int i = 0; i < {rows}; i++) {{
        double sum = {bias};
        for (int j = 0; j < {columns}; j++) {{
            sum += {weight} * values_{before}[j];
        }}
{output}
    }}"""

FUNCTION = {"tanh": "tanh(sum)", "sin": "sin(sum)", "exp": "exp(sum)", "square": "sum * sum", "identity": "sum"}

SQUASH = {
    "tanh": "        action[i] = action_centre[i] + action_half[i] * tanh(sum);",
    "clip": """        sum += action_centre[i];
        action[i] = sum < action_low[i] ? action_low[i] : (sum > action_high[i] ? action_high[i] : sum);""",
}


def write_c(form: PolicyArrays, directory: Path) -> list[Path]:
    """Write `policy.h` and `policy.c`; return the files."""
    header, source = Path(directory) / "policy.h", Path(directory) / "policy.c"
    used = {"tanh": ("centre", "half"), "clip": ("centre", "low", "high")}[form.squash]
    used += ("rate", "start") if form.rate is not None else ()
    bounds = [f"static const double action_{n}[ABPS_ACTION_SIZE] = {{{_numbers(getattr(form, n))}}};" for n in used]
    sizes = {"task": safe_text(form.task).replace("?", "_"), "s": form.mean.size, "a": form.low.size}
    moving = form.knots > 0
    header.write_text(HEADER.format(**sizes, functions=_declarations(form)), encoding="utf-8")
    text = SOURCE.format(
        **sizes, parameters=_parameters(form), mean=_numbers(form.mean), std=_numbers(form.std),
        bounds="\n".join(bounds), functions=_functions(form),
        begin="    abps_policy_state state;\n    abps_policy_start(&state);\n" if moving else "",
        call="abps_policy_step(&state, observation, action)" if moving else "abps_policy_act(observation, action)",
    )  # fmt: skip
    source.write_text(text, encoding="utf-8")
    return [header, source]


def _declarations(form: PolicyArrays) -> str:
    if not form.knots:
        return ACT_HEADER
    return STEP_HEADER.format(why=form.why_state, member=MEMBER if form.rate is not None else "")


def _functions(form: PolicyArrays) -> str:
    if not form.knots:
        return ACT.format(layers=_layers(form))
    limited = form.rate is not None
    return STEP.format(layers=_layers(form), begin=BEGIN if limited else "", limit=LIMIT if limited else "")


def _layers(form: PolicyArrays) -> str:
    """The statements from the observation to the action."""
    blocks, last = [NORMALISE], len(form.layers)
    for number, layer in enumerate(form.layers, 1):
        rows, columns = layer.weights.shape[-2:]
        output = SQUASH[form.squash]
        if number < last:
            value = FUNCTION[layer.function]
            if layer.plain and layer.function != "identity":
                value = f"i < {rows - layer.plain} ? {value} : sum"
            output = f"        values_{number}[i] = {value};"
        blocks.append(
            LAYER.format(
                declared="" if number == last else f"    double values_{number}[{rows}];\n", before=number - 1,
                rows=rows, columns=columns, output=output, bias=_entry(f"bias_{number}", "[i]", layer),
                weight=_entry(f"weights_{number}", "[i][j]", layer),
            )
        )  # fmt: skip
    return "\n".join(blocks)


def _entry(name: str, place: str, layer: Layer) -> str:
    """One number of a layer, between two knots where it moves."""
    if not moves(layer):
        return f"{name}{place}"
    return f"((1.0 - share) * {name}[before]{place} + share * {name}[after]{place})"


def _parameters(form: PolicyArrays) -> str:
    """Weights and bias of every layer, of all knots where they move."""
    lines: list[str] = []
    if form.knots:
        lines.append(f"#define KNOTS {form.knots}")
        lines.append(f"#define KNOT_INTERVAL {int(form.interval)} /* steps between two knots */\n")
    for number, layer in enumerate(form.layers, 1):
        rows, columns = layer.weights.shape[-2:]
        if moves(layer):
            knots = "\n".join(f"    {{\n{_rows(weights, 8)}\n    }}," for weights in layer.weights)
            lines.append(f"static const double weights_{number}[KNOTS][{rows}][{columns}] = {{\n{knots}\n}};")
            lines.append(f"static const double bias_{number}[KNOTS][{rows}] = {{\n{_rows(layer.bias)}\n}};")
        else:
            lines.append(f"static const double weights_{number}[{rows}][{columns}] = {{\n{_rows(layer.weights)}\n}};")
            lines.append(f"static const double bias_{number}[{rows}] = {{{_numbers(layer.bias)}}};")
    return "\n".join(lines)


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
