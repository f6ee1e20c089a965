#!/bin/sh
# Start a Spark executor in its pod. Spark gives its arguments and Java's options in environment variables.
# It reads the secret of its connections from a file only if it knows that its master is Kubernetes.
set -eu
set --
while eval "option=\${SPARK_JAVA_OPT_$#:-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
done
exec java "$@" -Dspark.master=k8s:// "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "$SPARK_CONF_DIR:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID"
