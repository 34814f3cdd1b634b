"""Java and Spark, which the pipeline needs and nothing else does."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from ...pipeline.spark.session import require_java, require_pyspark, spark_session
from ...protocol.errors import MissingRequirement
from .finding import Finding, Subject, failed, ok, skipped, warning


def check_java(subject: Subject) -> Iterator[Finding]:
    """The Java that Spark would run on."""
    bad = failed if subject.spark else warning
    home = os.environ.get("JAVA_HOME")
    where = f"JAVA_HOME {home}" if home else "PATH"
    try:
        yield ok("java", f"{require_java()}, found through {where}", java_home=home)
    except MissingRequirement as exc:
        what, _, todo = str(exc).partition(". ")
        yield bad(
            "java", f"{what}; the pipeline needs it, calls and notifications do not", todo, java_home=home
        )


def check_spark(subject: Subject) -> Iterator[Finding]:
    """Spark can be imported; with ``--spark``, a session starts and counts."""
    try:
        version = require_pyspark()
    except MissingRequirement as exc:
        yield (
            failed("spark", str(exc), "pip install 'pzc[pipeline]'")
            if subject.spark
            else skipped("spark", str(exc), "pip install 'pzc[pipeline]'")
        )
        return
    if not subject.spark:
        yield ok(
            "spark", f"pyspark {version} can be imported; --spark starts a session as well", version=version
        )
        return
    began = time.monotonic()
    try:
        session = spark_session("pzc-doctor", "local[1]", driver_memory="512m")
        try:
            count = session.range(10).count()
        finally:
            session.stop()
    except Exception as exc:  # Spark's own errors have no common base
        yield failed(
            "spark", f"a session did not start: {type(exc).__name__}: {exc}", "see the text above it"
        )
        return
    seconds = time.monotonic() - began
    yield ok(
        "spark",
        f"pyspark {version}: a session started and counted to {count} in {seconds:.1f} s",
        version=version,
    )
