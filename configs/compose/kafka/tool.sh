#!/bin/sh
# Kafka's command-line tools, by the name that this file is called by.
case "${0##*/}" in
    kafka-topics) class=org.apache.kafka.tools.TopicCommand ;;
    kafka-console-producer) class=org.apache.kafka.tools.ConsoleProducer ;;
    kafka-console-consumer) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
    kafka-consumer-groups) class=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
esac
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx128m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp '/opt/kafka/libs/*' "$class" "$@"
