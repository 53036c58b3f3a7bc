# One image for every part: the control plane, Spark's master and worker, and streaming jobs.
FROM python:3.11-slim-bookworm AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/venv/bin:$PATH SPARK_HOME=/opt/spark

FROM base AS build
RUN python -m venv /opt/venv
WORKDIR /src
# what Bindery needs before Bindery itself, which changes more often
COPY pyproject.toml configs/constraints/newest.txt ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    extras = project['optional-dependencies']; \
    print(*project['dependencies'], *extras['kafka'], *extras['rabbitmq'], *extras['s3'], sep='\n')" >needed.txt \
    && pip install --no-cache-dir --constraint newest.txt --requirement needed.txt hatchling
COPY README.md LICENSE ./
COPY router router
COPY store store
COPY api api
COPY jobs jobs
COPY bindery bindery
COPY configs configs
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
# The jars of Delta, Kafka and S3 among Spark's own, so that no job downloads them and no executor gets a copy: those
# that Spark lacks
RUN ln -s "$(python -c 'import pyspark; print(*pyspark.__path__)')" /opt/spark \
    && python -c "from bindery.jobs.session import build_session; \
    from bindery.jobs.control.connectors import KAFKA, S3A; \
    build_session('image', master='local[1]', needs=(KAFKA, S3A), settings={'spark.jars.ivy': '/opt/ivy'}).stop()" \
    && cd /opt/ivy/jars && for jar in *.jar; do \
    artifact=${jar#*_}; ls /opt/spark/jars/"${artifact%%-[0-9]*}"-[0-9]*.jar >/dev/null 2>&1 \
    || mv "$jar" /opt/spark/jars/"$artifact"; done
# What no job of Bindery uses: machine learning, Hive, Spark Connect, states in RocksDB; and what has done its work
RUN cd /opt/spark/jars && rm -r rocksdbjni-* spark-mllib* breeze* spire* cats-kernel_* spark-connect_* connect-repl \
    spark-hive* hive-exec-* hive-metastore-* derby* datanucleus-* \
    /opt/spark/examples /opt/venv/lib/python3.*/site-packages/pyarrow/tests \
    && pip uninstall --quiet --yes hatchling setuptools pip

FROM base
COPY --from=build /opt/venv /opt/venv
COPY configs /opt/bindery/configs
# Spark and the installed jobs under names that do not depend on the version of Python
RUN ln -s "$(python -c 'import pyspark; print(*pyspark.__path__)')" /opt/spark \
    && ln -s "$(python -c 'import bindery.jobs; print(*bindery.jobs.__path__)')" /opt/bindery/jobs
# What Spark and numba write besides data goes to /tmp: everything else may be read-only
ENV NUMBA_CACHE_DIR=/tmp/numba SPARK_LOCAL_DIRS=/tmp/spark PYTHONDONTWRITEBYTECODE=1
# /etc/spark and /etc/bindery hold secrets, /var/lib/spark what a master remembers (docker-compose.yml)
ENV SPARK_CONF_DIR=/etc/spark
RUN useradd --uid 10001 --create-home bindery \
    && mkdir -p /var/lib/bindery/data /var/lib/bindery/incoming \
    && install -d -m 700 /etc/spark /etc/bindery /etc/bindery/metrics /etc/bindery/store /var/lib/spark \
    && chown -R bindery:bindery /var/lib/bindery /etc/spark /etc/bindery /var/lib/spark
USER bindery
WORKDIR /var/lib/bindery
VOLUME /var/lib/bindery
EXPOSE 15672
CMD ["bindery", "serve", "--config", "/opt/bindery/configs/production.yaml"]
