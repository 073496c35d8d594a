"""Warnings and errors of the library."""


class SCB2OWarning(UserWarning):
    """Something that does not stop a run but that its user should know, raised once per cause."""


class CheckpointError(ValueError):
    """A file is no checkpoint, truncated, corrupt or of a newer version, or something cannot be stored in one.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn_scb2o import SCB2OOptimizer
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     try:
    ...         SCB2OOptimizer.load(file.name)
    ...     except CheckpointError as error:
    ...         print(str(error).partition(" ")[2])
    is not a checkpoint of sklearn_scb2o
    """
