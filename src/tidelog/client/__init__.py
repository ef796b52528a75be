"""A small client of Kafka's protocol for our own tools; speaks to any Kafka."""

from tidelog.client.admin import Admin, NewTopic
from tidelog.client.client import Client, parse_bootstrap
from tidelog.client.consumer import Consumer, Read
from tidelog.client.errors import ClientError, ClusterUnreachable, KafkaError, NotTrusted
from tidelog.client.producer import NewRecord, Producer, Written
from tidelog.client.security import BadProperties
from tidelog.client.view import BrokerView, ClusterView, PartitionView, TopicView

__all__ = [
    "Admin",
    "BadProperties",
    "BrokerView",
    "Client",
    "ClientError",
    "ClusterUnreachable",
    "ClusterView",
    "Consumer",
    "KafkaError",
    "NewRecord",
    "NewTopic",
    "NotTrusted",
    "PartitionView",
    "Producer",
    "Read",
    "TopicView",
    "Written",
    "parse_bootstrap",
]
