"""What the figures of all experiments share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def plot_band(ax: Any, x: np.ndarray, values: np.ndarray, *, alpha: float, color: Any, **line: Any) -> None:
    """Draw the mean over seeds, and the band from the smallest to the largest.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    x : array of shape (n,)
        Abscissae.
    values : array of shape (n, n_seeds)
        Ordinates.
    alpha : float
        Opacity of the band.
    color, **line
        Of the mean.
    """
    ax.plot(x, values.mean(axis=1), color=color, **line)
    ax.fill_between(x, values.min(axis=1), values.max(axis=1), color=color, alpha=alpha, lw=0)


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure, and make the directory if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)
