"""Shared memory: blocks, and who may use them when."""
