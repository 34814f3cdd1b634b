"""The command line: ``pzc``, and ``python -m pzc``."""
