"""A program that streams notifications into Parquet; a process that is made to be killed.

``python -m tests.pipeline.source_driver AGENTS NAME DIRECTORY KEY_FILE MAX_ROWS [once]``
"""

from __future__ import annotations

import sys

from pzc.pipeline.source import read_stream
from pzc.pipeline.spark.session import LOG_SETTINGS, spark_session

JAVA = "spark.driver.extraJavaOptions"
QUICK = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that starts in half the time, and is not there for long."""


def main(agents: str, name: str, directory: str, key_file: str, max_rows: str, *how: str) -> None:
    spark = spark_session("source-driver", "local[2]", driver_memory="1g", settings={JAVA: QUICK})
    options = {"spool": f"{directory}/spool", "keyFile": key_file, "onMissing": "fail"}
    rows = read_stream(spark, agents, name, maxRowsPerBatch=max_rows, **options)
    writer = rows.writeStream.format("parquet").option("path", f"{directory}/table")
    writer = writer.option("checkpointLocation", f"{directory}/checkpoint")
    query = writer.trigger(availableNow=True).start() if how else writer.start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
