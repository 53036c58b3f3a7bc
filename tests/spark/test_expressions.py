"""Expressions of submitted jobs, judged by Spark's parse: what reaches beyond the record is refused."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from bindery.jobs.control.config import job_of
from bindery.jobs.expressions import check_expressions, refusal
from bindery.router.errors import InvalidInput

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "expression",
    [
        "reflect('java.lang.System', 'exit', 1)",
        "ReFlEcT('java.lang.System', 'exit', 1)",
        "`reflect`('java.lang.System', 'exit', 1)",
        "/* reflect */ reflect /* ( */ ('java.lang.System', 'exit', 1)",
        "java_method('java.lang.System', 'exit', 1)",
        "try_reflect('java.lang.System', 'exit', 1)",
        "system.builtin.reflect('java.lang.System', 'exit', 1)",
        "spark_catalog.default.f(a)",
        "builtin.reflect('a', 'b')",
        "made_up(a)",
        "IDENTIFIER('ref' || 'lect')('java.lang.System', 'exit', 1)",
        "IDENTIFIER('reflect')('java.lang.System', 'exit', 1)",
        "transform(array(1), x -> reflect('java.lang.System', 'exit', x))",
        "CASE WHEN a IS NULL THEN 1 ELSE java_method('java.lang.System', 'exit', 1) END",
        "array(struct(named_struct('x', java_method('a', 'b'))))[0].col1.x",
        "sum(1) FILTER (WHERE reflect('a', 'b') IS NULL)",
        "(SELECT 1)",
        "(VALUES (1))",
        "(TABLE t)",
        "(FROM t |> SELECT a)",
        "a IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "(SELECT a FROM json.`/etc/passwd`)",
        "from_xml(a, 'b STRING', map('rowValidationXSDPath', '/etc/passwd'))",
        "schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd'))",
        "from_avro(a, '{}', map())",
        "from_protobuf(a, 'M', '/etc/passwd', map())",
        ":parameter",
    ],
)
def test_what_reaches_beyond_the_record_is_refused(spark: SparkSession, expression: str) -> None:
    assert refusal(spark, expression) is not None


@pytest.mark.parametrize(
    "expression",
    [
        "a",
        "a.b.c[0]",
        "'reflect(1)'",
        "-1.5e3",
        "a + b * 2 % 3",
        "a || '.' || b",
        "CAST(a AS BIGINT)",
        "a::string",
        "try_cast(a AS INT)",
        "CASE WHEN a > 1 THEN 'x' ELSE 'y' END",
        "concat_ws('.', carrier, origin, dest)",
        "date_format(time_hour, 'yyyyMMdd')",
        "to_json(struct(*))",
        "transform(a, x -> upper(x))",
        "extract(year FROM ts)",
        "a LIKE 'x%' AND b RLIKE 'y' OR NOT c BETWEEN 1 AND 2",
        "map('k', a)",
        "a IS DISTINCT FROM b",
        "a IN (1, 2)",
        "DATE '2020-01-01' + INTERVAL 1 DAY",
        "substring(a FROM 2 FOR 3)",
        "trim(BOTH ' ' FROM a)",
        "current_timestamp()",
        "current_date",
        "position('a' IN b)",
        "if(a, b, c)",
        "get_json_object(a, '$.b')",
        "ceil(a)",
    ],
)
def test_everything_else_may_be_used(spark: SparkSession, expression: str) -> None:
    assert refusal(spark, expression) is None


def test_the_key_of_a_refused_expression_is_named(spark: SparkSession) -> None:
    document = {"stream": "s", "source": {"format": "json", "path": "/x", "schema": "a STRING"}}
    for expression in ("(VALUES (1))", "a b c ("):
        file = job_of({**document, "message": {"application_properties": {"x": expression}}})
        with pytest.raises(InvalidInput, match=r"^message\.application_properties\.x: "):
            check_expressions(spark, file)
    check_expressions(spark, job_of({**document, "message": {"routing_key": "a"}}))
