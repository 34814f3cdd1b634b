"""The quick part of the contract with every Python that is here: ``make matrix``, or ``nox -f tests/noxfile.py -s matrix-3.13``."""

from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parents[1]
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
QUICK = ("calls", "notifications")

nox.options.envdir = ROOT / ".nox"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"


@nox.session(python=nox.project.python_versions(PROJECT))
def matrix(session: nox.Session) -> None:
    """Build the package, install it with what its tests need, and run them against it."""
    session.install(str(ROOT), *nox.project.dependency_groups(PROJECT, "test"))
    session.chdir(session.create_tmp())
    tests = session.posargs or [str(ROOT / "tests" / "contract" / part) for part in QUICK]
    session.run("pzc", "version")
    options = ("-q", "-n", "auto", "--dist", "loadgroup", "-p", "no:cacheprovider", "--installed")
    session.run(
        "python", "-P", "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *options,
        "-m", "not slow and not java and not serial", *tests,
    )  # fmt: skip
