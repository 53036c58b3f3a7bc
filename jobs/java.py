"""The Java process of Spark as a job sees it end before its time: one error instead of many kinds of noise.

When it is killed, or dies of a full memory, every call into it fails in its own way, cleaning up
included, and the libraries between print tracebacks of their own. A job needs one line.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from bindery.router.errors import BinderyError

_NOT_STARTED: Final = "JAVA_GATEWAY_EXITED"
#: Seconds in which a process on this machine takes a connection, if it lives.
_PATIENCE: Final = 10


class JavaEnded(BinderyError):
    """Spark's Java process has ended while a job needed it."""

    code = "java_ended"


@contextmanager
def java_needed(where: str) -> Iterator[None]:
    """Turn whatever is raised inside because Spark's Java process is gone into JavaEnded."""
    try:
        yield
    except BinderyError:
        raise
    except Exception as error:
        not_started = isinstance(error, PySparkException) and error.getCondition() == _NOT_STARTED
        if not_started or java_is_gone():
            raise JavaEnded(
                "the Java process of Spark could not start" if not_started else "the Java process of Spark has ended",
                where=where,
                hint="a package could not be fetched, or there was too little memory: see Spark's log"
                if not_started
                else "it was killed, or its memory was too small: see Spark's log; the next start completes the batch",
            ) from error
        raise


def java_is_gone() -> bool:
    """Whether the Java process that this process has talked to takes no connections any more."""
    gateway = SparkContext._gateway
    if gateway is None:
        return False
    address = gateway.gateway_parameters
    try:
        socket.create_connection((address.address, address.port), timeout=_PATIENCE).close()
    except OSError:
        return True
    return False


def quieten(session: SparkSession) -> None:
    """Keep the libraries between Python and Java from printing tracebacks: jobs raise errors of their own."""
    # every analysis error comes with its Java stack
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    # py4j reports a broken connection to its own logger, or by way of the root logger
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_report_of_py4j)
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = _ignore


def _is_no_report_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _ignore(_request: object, _address: object) -> None:
    """In the place of socketserver's report of a connection that broke."""
