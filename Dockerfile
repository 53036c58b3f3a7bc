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
COPY configs configs
RUN pip install --no-cache-dir --constraint configs/constraints/newest.txt .
# Delta's jars among Spark's own, so that no job downloads them and no executor gets a copy: those that Spark lacks
RUN ln -s "$(python -c 'import pyspark; print(*pyspark.__path__)')" /opt/spark \
    && python -c "from bindery.jobs.session import build_session; \
    build_session('image', master='local[1]', settings={'spark.jars.ivy': '/opt/ivy'}).stop()" \
    && cd /opt/ivy/jars && for jar in *.jar; do \
    artifact=${jar#*_}; ls /opt/spark/jars/"${artifact%%-[0-9]*}"-[0-9]*.jar >/dev/null 2>&1 \
    || mv "$jar" /opt/spark/jars/; done

FROM base
COPY --from=build /opt/venv /opt/venv
COPY configs /opt/bindery/configs
# Spark and the installed jobs under names that do not depend on the version of Python
RUN ln -s "$(python -c 'import pyspark; print(*pyspark.__path__)')" /opt/spark \
    && ln -s "$(python -c 'import bindery.jobs; print(*bindery.jobs.__path__)')" /opt/bindery/jobs
# What Spark and numba write besides data goes to /tmp: everything else may be read-only
ENV NUMBA_CACHE_DIR=/tmp/numba SPARK_LOCAL_DIRS=/tmp/spark PYTHONDONTWRITEBYTECODE=1
# /etc/spark holds the secret of Spark's processes, /var/lib/spark what a master remembers (docker-compose.yml)
ENV SPARK_CONF_DIR=/etc/spark
RUN useradd --uid 10001 --create-home bindery \
    && mkdir -p /var/lib/bindery/data /var/lib/bindery/incoming \
    && install -d -m 700 /etc/spark /var/lib/spark \
    && chown -R bindery:bindery /var/lib/bindery /etc/spark /var/lib/spark
USER bindery
WORKDIR /var/lib/bindery
VOLUME /var/lib/bindery
EXPOSE 15672
CMD ["bindery", "serve", "--config", "/opt/bindery/configs/production.yaml"]
