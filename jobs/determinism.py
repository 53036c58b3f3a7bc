"""Which expressions give the same value whenever and wherever a record is read, by Spark's analysed plan.

A batch may be routed again after a crash, by another driver, on other machines. An expression that then
gives another value would give a message other keys, and some queues the copies of one attempt and other
queues those of the other. So what depends on anything but the record is refused at the start.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions

#: What Spark computes once per query and hence calls deterministic: the class of an expression, and why not.
_ELSEWHERE: Final = {
    "CurrentUser": "the user who runs the job",
    "CurrentDatabase": "the session",
    "CurrentCatalog": "the session",
    "SparkVersion": "Spark's version",
    "VariableReference": "a variable of the session",
}
_DATETIMES: Final = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz"})
_TOKENS: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\s+|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`[^`]*`|(?P<word>\w+)|(?P<other>.)""",
    re.DOTALL,
)
#: What names a moment where a date or time is expected (Spark's special values).
_MOMENT: Final = re.compile(r"\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)
#: CURRENT_LIKE for Spark, and fixed here: every job runs in UTC.
_FIXED: Final = frozenset({"CurrentTimeZone"})
_CLOCK: Final = "the time at which it is computed"
HINT: Final = "use columns of the source, and batch_time for the time of the micro-batch"


def variation(frame: DataFrame, expression: str) -> str | None:
    """Why the value of an expression over the records of a frame is not the record's alone; None when it is.

    Raises AnalysisException for an expression that does not resolve.
    """
    literal = special_literal(expression)
    if literal is not None:
        return f"`{literal}` depends on {_CLOCK}"
    analysed: Any = _analysed(frame.select(functions.expr(expression)))
    if _kind(analysed) != "Project" or _kind(analysed.child()) != _kind(_analysed(frame)):
        return "it does not give one value for each record"
    jvm: Any = SparkSession.active()._jvm
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    subquery, replaceable = (
        jvm.java.lang.Class.forName(f"org.apache.spark.sql.catalyst.expressions.{name}")
        for name in ("PlanExpression", "RuntimeReplaceable")
    )
    pending = [analysed.expressions().apply(0)]
    while pending:
        node = pending.pop()
        if subquery.isInstance(node):
            return "it holds a subquery, and tables change"
        name = _kind(node)
        if name in _ELSEWHERE:
            return f"{_called(node)} depends on {_ELSEWHERE[name]}"
        children = node.children()
        inner = [children.apply(index) for index in range(children.size())]
        if not node.deterministic() and all(child.deterministic() for child in inner):
            return f"{_called(node)} gives another value each time it is computed"
        now = node.containsPattern(current) and not any(child.containsPattern(current) for child in inner)
        if (now and name not in _FIXED) or (name == "Cast" and _casts_a_moment(node)):
            return f"{_called(node)} depends on {_CLOCK}"
        pending += inner
        if replaceable.isInstance(node):
            pending.append(node.replacement())
    return None


def _analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName()).rstrip("$")


def _called(node: Any) -> str:
    text = " ".join(str(node.sql()).split())
    return f"`{text if len(text) <= 60 else text[:57] + '…'}`"


def special_literal(text: str) -> str | None:
    """A literal such as DATE 'today' in an expression: Spark computes it when the expression is parsed."""
    before = ""
    for token in _TOKENS.finditer(text):
        if token["text"] is not None and before in _DATETIMES and not re.match(r"\s*[0-9+-]", token["text"][1:]):
            return f"{before.upper()} {token['text']}"
        if token["text"] or token["word"] or token["other"]:
            before = (token["word"] or "").lower()
    return None


def _casts_a_moment(node: Any) -> bool:
    """Whether a constant text such as 'now' is cast to a date or time: Spark replaces it by that moment."""
    child = node.child()
    if str(node.dataType().typeName()) not in _DATETIMES or not child.foldable():
        return False
    return _MOMENT.match(str(child.eval(None))) is not None
