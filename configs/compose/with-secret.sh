#!/bin/sh
# with-secret.sh KIND COMMAND…: runs a command after a secret is there. It is made once, on a volume that those mount
# who need it, and stands on no command line and in no container's settings.
set -eu
case "$1" in
    spark) # what Spark's processes prove to each other
        file="$SPARK_CONF_DIR/spark-defaults.conf"
        text='spark.authenticate true\nspark.authenticate.secret %s\n'
        ;;
    store) # the keys of the object store, as a profile
        file="$AWS_SHARED_CREDENTIALS_FILE"
        text='[default]\naws_access_key_id = bindery\naws_secret_access_key = %s\n'
        ;;
    metrics) # the token of whoever scrapes the metrics
        file="$BINDERY_METRICS_TOKEN_FILE" # none where nobody is to scrape them by a token
        text='%s\n'
        ;;
    *)
        echo "no such kind of secret: $1" >&2
        exit 2
        ;;
esac
shift
if [ -n "$file" ] && [ ! -s "$file" ]; then
    (
        umask 077
        # shellcheck disable=SC2059
        printf "$text" "$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$file.new"
        mv "$file.new" "$file"
    )
fi
exec "$@"
