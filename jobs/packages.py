"""What Spark needs to read Delta tables; known without starting Spark."""

from __future__ import annotations

from typing import Final

#: The jar that belongs to the delta-spark release of pyproject.toml and its Spark and Scala versions.
DELTA_PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
#: Settings that only help when a session is made.
DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
