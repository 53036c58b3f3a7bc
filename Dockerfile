# One image for every part: the control plane, Spark's master and worker, and streaming jobs.
FROM python:3.11-slim-bookworm AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/venv/bin:$PATH SPARK_HOME=/opt/spark

FROM base AS build
RUN python -m venv /opt/venv
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY router router
COPY store store
COPY api api
COPY jobs jobs
COPY bindery bindery
RUN pip install --no-cache-dir .
# Delta's jars, so that no job downloads anything
RUN ln -s "$(python -c 'import pyspark; print(*pyspark.__path__)')" /opt/spark \
    && python -c "from bindery.jobs.session import build_session; \
    build_session('image', master='local[1]', settings={'spark.jars.ivy': '/opt/ivy'}).stop()" \
    && mv /opt/ivy/jars /opt/delta

FROM base
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/delta /opt/delta
COPY configs /opt/bindery/configs
# Spark and the installed jobs under names that do not depend on the version of Python
RUN ln -s "$(python -c 'import pyspark; print(*pyspark.__path__)')" /opt/spark \
    && ln -s "$(python -c 'import bindery.jobs; print(*bindery.jobs.__path__)')" /opt/bindery/jobs
# What Spark and numba write besides data goes to /tmp: everything else may be read-only
ENV NUMBA_CACHE_DIR=/tmp/numba SPARK_LOCAL_DIRS=/tmp/spark PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --create-home bindery \
    && mkdir -p /var/lib/bindery/data /var/lib/bindery/incoming \
    && chown -R bindery:bindery /var/lib/bindery
USER bindery
WORKDIR /var/lib/bindery
VOLUME /var/lib/bindery
EXPOSE 15672
CMD ["bindery", "serve", "--config", "/opt/bindery/configs/production.yaml"]
