"""Settings of a Spark session that are known without starting one: Delta's classes, and no pages."""

from __future__ import annotations

from typing import Final

#: The jar that belongs to the delta-spark release of pyproject.toml and its Spark and Scala versions.
DELTA_PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
#: No user interface: what Spark would keep for its pages, of a thousand batches each, is not kept either.
NO_PAGES: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
}
#: Settings that only help when a session is made.
DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
