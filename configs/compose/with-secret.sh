#!/bin/sh
# Runs a command after the secret is there that Spark's processes prove to each other (spark.authenticate). It is made
# once, on the volume that all of them mount as their configuration, and stands on no command line.
set -eu
conf="$SPARK_CONF_DIR/spark-defaults.conf"
if [ ! -s "$conf" ]; then
    umask 077
    secret="$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')"
    printf 'spark.authenticate true\nspark.authenticate.secret %s\n' "$secret" >"$conf.new"
    mv "$conf.new" "$conf"
fi
exec "$@"
