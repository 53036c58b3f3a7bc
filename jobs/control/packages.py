"""Settings of a Spark session that are known without starting one: Delta's classes, and no pages."""

from __future__ import annotations

from typing import Final

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
