#!/bin/sh
# Starts the broker; its first start makes the id of the cluster, and the folder that carries it.
set -eu
run() {
    exec java -XX:+UseSerialGC "$@"
}
libs='/opt/kafka/libs/*'
settings=/opt/kafka/server.properties
log='-Dorg.slf4j.simpleLogger.defaultLogLevel=warn'
if [ ! -e /var/lib/kafka/data/meta.properties ]; then
    id="$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')"
    (run -Xmx128m "$log" -cp "$libs" kafka.tools.StorageTool format --cluster-id "$id" --config "$settings")
fi
run -Xms256m -Xmx512m "$log" -cp "$libs" kafka.Kafka "$settings"
