"""Expressions of a submitted job, judged by Spark's own parse of them before anything is analysed or run.

Only functions that are built into Spark may be called, and of those none that reaches classes or files.
Subqueries, names that are computed, and every form of expression that is not known here are refused.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from bindery.jobs.control.config import JobFile
from bindery.jobs.sources.files import spark_reason

_CATALYST: Final = "org.apache.spark.sql.catalyst."
_SUBQUERY: Final = _CATALYST + "expressions.PlanExpression"
_CALL: Final = _CATALYST + "analysis.UnresolvedFunction"
#: Unresolved parts that name columns and nothing else; what is resolved already lies in the package of expressions.
_COLUMNS: Final = frozenset(
    _CATALYST + "analysis." + name
    for name in ("UnresolvedAttribute", "UnresolvedExtractValue", "UnresolvedStar", "UnresolvedAlias")
)
#: Built-in functions that reach beyond their arguments, by the class behind every one of their names.
_REACHING: Final = {
    "CallMethodViaReflection": "it calls methods of Java classes",
    "TryReflect": "it calls methods of Java classes",
    "XmlToStructs": "it can read a schema from a file",
    "SchemaOfXml": "it can read a schema from a file",
    "FromAvro": "it can read a schema from a file",
    "SchemaOfAvro": "it can read a schema from a file",
    "FromProtobuf": "it can read a descriptor from a file",
    "ToProtobuf": "it can read a descriptor from a file",
}


def check_expressions(spark: SparkSession, file: JobFile) -> None:
    """Raise InvalidInput, naming the key, for an expression that a submitted job may not use."""
    for column, content in file.job.message.items():
        for name, text in content.items() if isinstance(content, dict) else [("", content)]:
            path = ("message", column, name) if name else ("message", column)
            try:
                reason = refusal(spark, text)
            except ParseException as error:
                raise file.error(path, spark_reason(error)) from None
            if reason is not None:
                raise file.error(path, reason, hint="use columns, literals, operators and functions")


def refusal(spark: SparkSession, text: str) -> str | None:
    """Why an expression is refused; None when it is not. Raises ParseException when it is none."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    plan_expression = jvm.java.lang.Class.forName(_SUBQUERY)
    pending = [session.sessionState().sqlParser().parseExpression(text)]
    while pending:
        node = pending.pop()
        kind = str(node.getClass().getName())
        if plan_expression.isInstance(node):
            return "subqueries are not allowed in a submitted job"
        if kind == _CALL:
            parts = node.nameParts()
            reason = _refused_function(jvm, [str(parts.apply(index)) for index in range(parts.size())])
            if reason is not None:
                return reason
        elif kind not in _COLUMNS and not kind.startswith(_CATALYST + "expressions."):
            return f"{kind.rpartition('.')[2]} is not allowed in a submitted job"
        children = node.children()
        pending += [children.apply(index) for index in range(children.size())]
    return None


def _refused_function(jvm: Any, parts: list[str]) -> str | None:
    shown = ".".join(parts)
    if len(parts) != 1:
        return f"{shown}: only functions built into Spark are allowed in a submitted job"
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(parts[0].lower())
    found = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin().lookupFunction(identifier)
    if found.isEmpty():
        return f"{shown}: no function built into Spark"
    reason = _REACHING.get(str(found.get().getClassName()).rpartition(".")[2].rstrip("$"))
    return None if reason is None else f"{shown} is not allowed in a submitted job: {reason}"
