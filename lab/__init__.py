"""Labs that stand in one file: their processes are started, watched, started again and ended."""

from pathlib import Path

detached_program = Path(__file__).with_name("detached.py")
"""Starts another program as nobody's child."""
