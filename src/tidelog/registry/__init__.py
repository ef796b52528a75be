"""A schema registry on a compacted topic: the REST API that serializers of Kafka clients ask."""
