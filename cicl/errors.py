"""Every error that cicl raises on purpose.

::

    CiclError
    ├── ConfigurationError      an option, setting or environment variable cannot be used
    ├── RepositoryError         the path given is no directory that can be read
    ├── JudgeError
    │   ├── JudgeNotFound       no installed package offers a judge of that name
    │   └── JudgmentInvalid     a judge's answer breaks the contract of `Judgment`
    ├── GraphError              units or edges that do not form a graph
    └── StoreError              the store cannot be opened, read or written
        └── ReceiptNotFound     no pack with that receipt was recorded here

A message says what happened and what to do next. The library raises, the command line maps to exit codes.
"""

__all__ = [
    "CiclError",
    "ConfigurationError",
    "GraphError",
    "JudgeError",
    "JudgeNotFound",
    "JudgmentInvalid",
    "ReceiptNotFound",
    "RepositoryError",
    "StoreError",
]


class CiclError(Exception):
    """The root: catch it to catch everything that cicl raises on purpose."""


class ConfigurationError(CiclError):
    """An option, setting or environment variable has a value that cannot be used."""


class RepositoryError(CiclError):
    """The path given is not a directory that can be read."""


class JudgeError(CiclError):
    """A judge cannot be used."""


class JudgeNotFound(JudgeError):
    """No installed package offers a judge of that name in the entry-point group ``cicl.judges``."""


class JudgmentInvalid(JudgeError):
    """A judge's answer breaks the contract: a field missing, a number outside [0, 1], a wrong length."""


class GraphError(CiclError):
    """Units or edges do not form a graph: an id given twice, an edge whose end is not there."""


class StoreError(CiclError):
    """The store cannot be opened, read or written."""


class ReceiptNotFound(StoreError):
    """No pack with that receipt was recorded for this instance."""
