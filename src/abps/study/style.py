"""How figures look: a colour-blind safe palette (after Okabe & Ito), line styles, and a light and a dark theme.

Every label has a colour *and* a line style, so that figures survive a grey printer. The searches of the paper always
have the same colour, whatever else is in the figure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["DARK", "LIGHT", "Theme", "assign"]


@dataclass(frozen=True)
class Theme:
    """Colours of one variant."""

    background: str
    text: str
    grid: str
    palette: tuple[str, ...]

    def rc(self) -> dict[str, Any]:
        """Matplotlib settings, for `matplotlib.rc_context`."""
        return {
            "figure.facecolor": self.background,
            "savefig.facecolor": self.background,
            "axes.facecolor": self.background,
            "axes.edgecolor": self.text,
            "axes.labelcolor": self.text,
            "axes.titlecolor": self.text,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.titlesize": 10,
            "axes.labelsize": 9,
            "axes.linewidth": 0.8,
            "grid.color": self.grid,
            "grid.linewidth": 0.6,
            "text.color": self.text,
            "xtick.color": self.text,
            "ytick.color": self.text,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "legend.fontsize": 9,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "font.size": 9,
            "svg.hashsalt": "abps",
            "svg.fonttype": "path",
        }


LIGHT = Theme(
    "#ffffff",
    "#222222",
    "#e3e3e3",
    ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8F98"),
)
DARK = Theme(
    "#15181c",
    "#e6e6e6",
    "#353a41",
    ("#F0803C", "#56B4E9", "#2FC99A", "#E09BC4", "#F0E442", "#B0A8FF", "#FFFFFF", "#8A8F98"),
)
"""The same hues, lightened until they can be told apart on a dark screen."""

DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2), (1.5, 1.5), (6, 2, 1.5, 2), (10, 3), (3, 1.5, 1, 1.5, 1, 1.5))
"""Dash patterns in line widths; the empty one is a solid line."""

FIXED = ("abs", "mpd", "ars", "gibo", "ddpgn")


def assign(labels: Iterable[str]) -> dict[str, int]:
    """A style number per label: the paper's searches have theirs fixed, the others take what is free, in order."""
    labels = list(dict.fromkeys(labels))
    numbers = {label: FIXED.index(label) for label in labels if label in FIXED}
    free = (number for number in range(len(labels) + len(FIXED)) if number not in numbers.values())
    for label in labels:
        if label not in numbers:
            numbers[label] = next(free)
    return numbers
