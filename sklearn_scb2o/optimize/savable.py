"""What an optimizer is saved to, and comes back from: dictionaries, files, pickles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..particles import SELECTORS
from .checkpoint import optimizer_contents, read_checkpoint, stored_arguments, write_checkpoint
from .findings import Findings
from .parameters import Parameters
from .state import State
from .storage import StrPath


class Savable(Findings):
    """The part of `SCB2OOptimizer` that saves it."""

    parameters: Parameters
    x_opt: Any

    def state_dict(self) -> dict[str, Any]:
        """The whole state as arrays, numbers, strings, lists and dictionaries, sharing nothing with the optimizer.

        Loaded into an optimizer with the same parameters, the run continues bit for bit.
        """
        return {**self._swarm.settle(self._state).to_dict(), "elapsed": self.elapsed}

    def load_state_dict(self, values: dict[str, Any]) -> None:
        """Take over a state that `state_dict` of an optimizer with the same parameters returned."""
        self._state = State.from_dict(values, self._state, self._swarm.array)
        self._started_at = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the constructor for another optimizer like this one, which differs in its state alone.

        Returns
        -------
        dict
            Of all parameters but ``random_state``. Bounds, scales and start are arrays, the array namespace is given
            by its name.
        """
        box, selector = self._swarm.box, self.parameters.selector
        return {
            "bounds": np.stack([box.low, box.high], axis=1),
            "x0": self._swarm.start,
            "n_particles": self.n_particles,
            "n_runs": self.n_runs,
            **vars(self.parameters),
            "selector": selector.name if SELECTORS.get(selector.name) is selector else selector,
            "batch_size": self.batch_size,
            "x_scale": box.scale,
            "x_opt": self.x_opt,
            **vars(self.limits),
            "dtype": str(box.scale.dtype),
            "xp": self._swarm.xp.__name__,
            "device": self._swarm.device,
        }

    def save(self, path: StrPath) -> None:
        """Write parameters and state to one file, atomically: a crash leaves the previous file or the new one.

        The file holds numbers, strings and arrays, with a checksum, and no pickle. Schedules, own selectors and
        devices cannot be stored: `load` takes them again.

        Parameters
        ----------
        path : str or path-like
            The file, replaced where it exists.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_checkpoint(path, optimizer_contents(self))

    @classmethod
    def load(cls, path: StrPath, **overrides: Any) -> Self:
        """The optimizer that `save` wrote; it continues bit for bit, and asks a pending batch again.

        Parameters
        ----------
        path : str or path-like
            The file.
        **overrides
            Parameters of the class: those that the file could not store, and those that are to change, such as
            ``max_iter``. What the state depends on (box, start, seed, numbers of particles, dtype) cannot change.

        Returns
        -------
        SCB2OOptimizer

        Raises
        ------
        CheckpointError
            If the file is not a checkpoint, truncated, corrupt, of a newer version, or not that of an optimizer.
        ValueError
            If parameters have to be given again, naming them, or an override contradicts the state.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn_scb2o import SCB2OOptimizer
        >>> opt = SCB2OOptimizer([(0, 1)] * 3, random_state=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     opt.save(f"{folder}/run.scb2o")
        ...     copy = SCB2OOptimizer.load(f"{folder}/run.scb2o", max_iter=50)
        >>> bool((copy.ask() == opt.ask()).all())
        True
        """
        contents = read_checkpoint(path)
        optimizer = cls(**stored_arguments(contents, overrides, path))
        optimizer.load_state_dict(contents["optimizer"])
        return optimizer

    def __getstate__(self) -> dict[str, Any]:
        # neither a clock reading nor the points that are out mean anything in another process
        state = self._swarm.settle(self._state)
        tickets = None if state.tickets is None else state.tickets.released()
        return {
            **self.__dict__,
            "_started_at": None,
            "_remembered": None,
            "_state": replace(state, elapsed=self.elapsed, tickets=tickets),
        }
