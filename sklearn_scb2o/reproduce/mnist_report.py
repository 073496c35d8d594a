"""Table and figure of the MNIST experiment."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .figures import plot_band, save_figure
from .mnist import Learning


def table_mnist(curves: list[Learning]) -> str:
    """The table as text: after the last epoch, mean over seeds, with the smallest and largest.

    Parameters
    ----------
    curves : list of Learning
        From `run_mnist`.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> row = np.array([[0.5, 0.7]])
    >>> print(table_mnist([Learning(0.04, "CB2O", row, row, row)]).splitlines()[-1])
    0.04 CB2O    |  0.600 (0.500 - 0.700) |   60.0% (50.0 - 70.0) |  0.600 (0.500 - 0.700)
    """
    n_epochs, n_seeds = curves[0].loss.shape
    lines = [
        f"The consensus after {n_epochs} epochs: mean over {n_seeds} seeds (smallest - largest)",
        f"{'beta':<4} {'method':<7} | {'training loss':>22} | {'test accuracy':>21} | {'latent norm':>22}",
    ]
    for c in curves:
        loss, norm = (_cell(values[-1], 3, "") for values in (c.loss, c.norm))
        lines.append(
            f"{c.beta:<4g} {c.method:<7} | {loss:>22} | {_cell(100 * c.accuracy[-1], 1, '%'):>21} | {norm:>22}"
        )
    return "\n".join(lines)


def _cell(values: np.ndarray, digits: int, unit: str) -> str:
    mean, least, most = (f"{v:.{digits}f}" for v in (values.mean(), values.min(), values.max()))
    return f"{mean}{unit} ({least} - {most})"


def figure_mnist(curves: list[Learning], path: Path) -> None:
    """Save the paper's figure: loss, accuracy and norm over epochs, mean and min-max band over seeds; a row per beta.

    Parameters
    ----------
    curves : list of Learning
        From `run_mnist`.
    path : Path
        Where to write the picture; its suffix is the format.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    panels = {"loss": "training loss", "accuracy": "test accuracy", "norm": "latent norm"}
    betas = list(dict.fromkeys(c.beta for c in curves))
    soft = list(dict.fromkeys(c.method for c in curves if c.method.startswith("xi=")))
    colors = dict(zip(soft, colormaps["viridis"](np.linspace(0.0, 0.9, len(soft))), strict=True))
    figure = Figure(figsize=(12, 3.4 * len(betas)), layout="constrained")
    axes = figure.subplots(len(betas), len(panels), squeeze=False)
    for line, beta in zip(axes, betas, strict=True):
        for ax, (name, label) in zip(line, panels.items(), strict=True):
            for c in (c for c in curves if c.beta == beta):
                values = getattr(c, name)
                color, dashes = colors.get(c.method, "black"), "--" if c.method == "no G" else "-"
                epochs = np.arange(1, len(values) + 1)
                plot_band(ax, epochs, values, alpha=0.12, color=color, ls=dashes, lw=1.5, label=c.method)
            ax.set(xlabel="epoch", title=f"beta = {beta:g}: {label}")
        line[0].set_yscale("log")
    axes[0, 0].legend(fontsize=8)
    save_figure(figure, path, dpi=120)
