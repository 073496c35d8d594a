"""Warnings of the library."""


class SCB2OWarning(UserWarning):
    """Something that does not stop a run but that its user should know, raised once per cause."""
