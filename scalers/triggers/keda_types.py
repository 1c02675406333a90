"""The trigger types of KEDA 2.20, which distinguish a type that is not supported yet from a misspelled one."""

_NAMES = """
activemq apache-kafka arangodb artemis-queue aws-cloudwatch aws-dynamodb aws-dynamodb-streams aws-kinesis-stream
aws-sqs-queue azure-app-insights azure-blob azure-data-explorer azure-eventhub azure-log-analytics azure-monitor
azure-pipelines azure-queue azure-servicebus beanstalkd cassandra couchdb cpu cron datadog dynatrace
elastic-forecast elasticsearch etcd external external-mock external-push forgejo-runner gcp-cloudtasks gcp-pubsub
gcp-stackdriver gcp-storage github-runner graphite huawei-cloudeye ibmmq influxdb kafka kubernetes-resource
kubernetes-workload liiklus loki memory metrics-api mongodb mssql mysql nats-jetstream new-relic nsq opensearch
openstack-metric openstack-swift postgresql predictkube prometheus pulsar rabbitmq redis redis-cluster
redis-cluster-streams redis-sentinel redis-sentinel-streams redis-streams selenium-grid solace-direct-messaging
solace-event-queue solarwinds solr splunk splunk-observability sumologic temporal
"""

TYPES: frozenset[str] = frozenset(_NAMES.split())
