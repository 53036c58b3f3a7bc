#!/bin/sh
# Starts an executor in a pod: the image has no entry point of Spark's own. Spark states what it needs in the environment
# (resource-managers/kubernetes of Spark, BasicExecutorFeatureStep); options of Java are SPARK_JAVA_OPT_0, _1 ….
set -eu
set --
number=0
while value="$(printenv "SPARK_JAVA_OPT_$number")"; do
    set -- "$@" "$value"
    number=$((number + 1))
done
exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
