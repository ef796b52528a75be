"""Figures of a cluster's health, from its events. See docs/pipelines.md for what each one means.

Every statement reads rows and gives rows; nothing is written. Results are small, so each is
computed once and kept, and what is made of it is planned anew.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.spark.pipelines.health_events import known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAG_WINDOW_MS = 10_000
FENCED_WITHIN_MS = 2_000
"""The fence of a broker follows the elections that it causes in the same commit."""
REPLICAS_SCHEMA = "topic_id STRING, index INT, replicas ARRAY<INT>"

# Each state of each partition that the metadata log held, from when until when. A leader and an
# in-sync set that were decided together share a partition epoch. The last state lasts until the
# last event there is; of a topic that exists no more nothing is known after its last state.
SPANS = """
WITH decided AS (
  SELECT topic_id, index, partition_epoch, max(topic) AS topic, min(time_ms) AS from_ms,
    max(leader) AS leader, max(leader_epoch) AS leader_epoch, max(claim) AS claim,
    first(isr, true) AS isr, first(elr, true) AS elr
  FROM {known} WHERE event IN ('LeaderElected', 'IsrCommitted')
  GROUP BY topic_id, index, partition_epoch),
ordered AS (
  SELECT decided.*, replicas,
    last_value(leader, true) OVER so_far AS leads,
    last_value(leader_epoch, true) OVER so_far AS epoch,
    lead(from_ms) OVER so_far AS next_ms,
    size(array_distinct(flatten(collect_list(isr) OVER whole))) AS members
  FROM decided LEFT JOIN {assigned} USING (topic_id, index)
  WINDOW so_far AS (PARTITION BY topic_id, index ORDER BY partition_epoch),
    whole AS (PARTITION BY topic_id, index)),
ended AS (
  SELECT *, greatest(from_ms, coalesce(
      next_ms, CASE WHEN replicas IS NULL THEN from_ms END, end_ms)) AS until_ms
  FROM ordered CROSS JOIN (SELECT max(time_ms) AS end_ms FROM {known}))
SELECT topic_id, index, topic, partition_epoch, claim, leads AS leader, epoch AS leader_epoch,
  isr, elr, replicas, coalesce(size(replicas), members) AS wanted, from_ms, until_ms,
  until_ms - from_ms AS for_ms, next_ms IS NULL AS is_last, replicas IS NOT NULL AS exists,
  size(isr) < coalesce(size(replicas), members) AS is_under, leads = -1 AS is_offline
FROM ended
"""

# Each change of an in-sync set: who left it and who came back.
CHURN = """
SELECT topic_id, index, topic, partition_epoch, time_ms,
  array_except(was, isr) AS gone, array_except(isr, was) AS back
FROM (SELECT *, from_json(previous, 'ARRAY<INT>') AS was
  FROM {known} WHERE event = 'IsrCommitted')
WHERE was <> isr
"""

# Each time another broker began to lead, or one again after nobody could. The gap is between two
# appends that the new leader itself made, the last as a follower under the old epoch and the
# first under its own, so one clock measures it. "fenced": the controller missed the old leader;
# "shutdown": it said goodbye; "moved": somebody, or the balance, wanted it so.
CHANGES = """
WITH elections AS (
  SELECT *, int(previous) AS before, lag(time_ms) OVER (
      PARTITION BY topic_id, index ORDER BY partition_epoch) AS vacant_ms,
    last_value(CASE WHEN leader <> -1 THEN struct(leader, leader_epoch) END, true) OVER (
      PARTITION BY topic_id, index ORDER BY partition_epoch
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS known
  FROM {known} WHERE event = 'LeaderElected'),
changes AS (
  SELECT topic_id, index, topic, partition_epoch, claim, node, stream, number, unclean,
    if(before = -1, known.leader, before) AS `from`, leader AS to,
    if(before = -1, known.leader_epoch, leader_epoch - 1) AS old_epoch, leader_epoch,
    if(before = -1, vacant_ms, time_ms) AS lost_ms, time_ms AS elected_ms
  FROM elections
  WHERE leader <> -1 AND leader <> before AND (before <> -1 OR known IS NOT NULL)),
work AS (
  SELECT topic_id, index, broker, leader_epoch,
    min(CASE WHEN event = 'BecameLeader' THEN time_ms END) AS leads_ms,
    min(CASE WHEN event = 'RecordsAppended' THEN time_ms END) AS first_ms,
    max(CASE WHEN event = 'RecordsAppended' THEN time_ms END) AS last_ms
  FROM {known} WHERE event IN ('BecameLeader', 'RecordsAppended')
  GROUP BY topic_id, index, broker, leader_epoch),
doubts AS (
  SELECT c.topic_id, c.index, c.partition_epoch,
    max_by(f.event = 'ControlledShutdownStarted', f.number)
      FILTER (WHERE f.event <> 'BrokerFenced' AND f.number < c.number) AS was_leaving,
    bool_or(f.event = 'BrokerFenced' AND abs(f.time_ms - elected_ms) <= {within_ms}) AS was_fenced
  FROM changes AS c JOIN {known} AS f
    ON f.event IN ('BrokerFenced', 'ControlledShutdownStarted', 'BrokerRegistered')
    AND f.node = c.node AND f.stream = c.stream AND f.broker = c.`from`
  GROUP BY c.topic_id, c.index, c.partition_epoch)
SELECT c.topic, c.index, c.topic_id, c.partition_epoch, c.claim, c.`from`, c.to, c.leader_epoch,
  c.unclean, CASE WHEN was_leaving THEN 'shutdown'
    WHEN was_fenced OR lost_ms < elected_ms THEN 'fenced' ELSE 'moved' END AS cause,
  lost_ms, elected_ms, mine.leads_ms,
  if(mine.leads_ms < lost_ms, 0, mine.leads_ms - lost_ms) AS leaderless_ms,
  if(mine.first_ms < old.last_ms, 0, mine.first_ms - old.last_ms) AS gap_ms
FROM changes AS c
LEFT JOIN doubts AS d ON d.topic_id = c.topic_id AND d.index = c.index
  AND d.partition_epoch = c.partition_epoch
LEFT JOIN work AS mine ON mine.topic_id = c.topic_id AND mine.index = c.index
  AND mine.broker = c.to AND mine.leader_epoch = c.leader_epoch
LEFT JOIN work AS old ON old.topic_id = c.topic_id AND old.index = c.index
  AND old.broker = c.to AND old.leader_epoch = c.old_epoch
"""

# Where each replica stood at the end of each window in which its partition was written to, and
# how far behind the one furthest on of those that know the newest leader epoch.
LAG = """
WITH last AS (
  SELECT topic_id, index, max(topic) AS topic, broker,
    time_ms div {window_ms} * {window_ms} AS window_ms,
    max_by(struct(leader_epoch, next_offset), struct(stream, number)) AS at
  FROM {known} WHERE event = 'RecordsAppended'
  GROUP BY topic_id, index, broker, time_ms div {window_ms} * {window_ms}),
grid AS (
  SELECT * FROM (SELECT DISTINCT topic_id, index, window_ms FROM last)
  JOIN (SELECT topic_id, index, broker, max(topic) AS topic FROM last
    GROUP BY topic_id, index, broker) USING (topic_id, index)),
filled AS (
  SELECT grid.*, last_value(at, true) OVER (
    PARTITION BY grid.topic_id, grid.index, grid.broker ORDER BY grid.window_ms) AS at
  FROM grid LEFT JOIN last ON last.topic_id = grid.topic_id AND last.index = grid.index
    AND last.broker = grid.broker AND last.window_ms = grid.window_ms),
newest AS (
  SELECT *, max(at.leader_epoch) OVER (PARTITION BY topic_id, index, window_ms) AS epoch
  FROM filled WHERE at IS NOT NULL),
headed AS (
  SELECT *, max(CASE WHEN at.leader_epoch = epoch THEN at.next_offset END)
    OVER (PARTITION BY topic_id, index, window_ms) AS head
  FROM newest)
SELECT topic_id, index, topic, broker, window_ms, at.next_offset AS log_end_offset,
  if(head < at.next_offset, 0, head - at.next_offset) AS lag
FROM headed
"""

REPLICAS = """
WITH behind AS (
  SELECT topic_id, index, broker, max(topic) AS topic, max_by(lag, window_ms) AS lag_last,
    percentile_approx(lag, 0.5) AS lag_median, percentile_approx(lag, 0.95) AS lag_p95,
    max(lag) AS lag_max, count(*) AS samples
  FROM {lag} GROUP BY topic_id, index, broker),
cut AS (
  SELECT topic_id, index, broker, count(*) AS truncations,
    sum(previous_end - log_end_offset) AS truncated_records
  FROM {known} WHERE event = 'LogTruncated' GROUP BY topic_id, index, broker)
SELECT topic, index, topic_id, broker, lag_last, lag_median, lag_p95, lag_max, samples,
  coalesce(truncations, 0) AS truncations, coalesce(truncated_records, 0) AS truncated_records
FROM behind LEFT JOIN cut USING (topic_id, index, broker)
"""

PARTITIONS = """
WITH marked AS (
  SELECT *, is_under AND NOT coalesce(lag(is_under) OVER (
    PARTITION BY topic_id, index ORDER BY partition_epoch), false) AS begins FROM {spans}),
lasted AS (
  SELECT topic_id, index, max(topic) AS topic,
    max_by(struct(leader, leader_epoch, isr, wanted, exists, is_under), partition_epoch) AS now,
    sum(if(is_under, for_ms, 0)) AS under_ms, sum(int(begins)) AS under_times,
    max(if(begins, from_ms, NULL)) AS under_since_ms, sum(if(is_offline, for_ms, 0)) AS offline_ms
  FROM marked GROUP BY topic_id, index),
turns AS (
  SELECT topic_id, index, sum(size(gone)) AS isr_left, sum(size(back)) AS isr_joined
  FROM {churn} GROUP BY topic_id, index),
led AS (
  SELECT topic_id, index, count(*) AS leader_changes, sum(int(unclean)) AS unclean,
    max(gap_ms) AS gap_max_ms
  FROM {changes} GROUP BY topic_id, index),
behind AS (
  SELECT topic_id, index, max(lag_last) AS lag_last FROM {replicas} GROUP BY topic_id, index)
SELECT topic, index, topic_id, now.leader, now.leader_epoch, now.isr, now.wanted AS replicas,
  now.exists, now.is_under AND now.exists AS is_under, under_ms, under_times, under_since_ms,
  offline_ms, coalesce(isr_left, 0) AS isr_left, coalesce(isr_joined, 0) AS isr_joined,
  coalesce(leader_changes, 0) AS leader_changes, coalesce(unclean, 0) AS unclean, gap_max_ms,
  coalesce(lag_last, 0) AS lag_last
FROM lasted LEFT JOIN turns USING (topic_id, index) LEFT JOIN led USING (topic_id, index)
  LEFT JOIN behind USING (topic_id, index)
"""

# What each broker does now, and how often it was missed.
BROKERS = """
WITH facts AS (
  SELECT broker, int(leader = broker) AS leads, int(replicas[0] = broker) AS preferred,
    int(array_contains(isr, broker)) AS in_sync, int(NOT array_contains(isr, broker)) AS out,
    0 AS fenced, 0 AS isr_left, 0 AS lag_max, 0 AS truncated
  FROM (SELECT *, explode(replicas) AS broker FROM {spans} WHERE is_last AND exists)
  UNION ALL SELECT broker, 0, 0, 0, 0, 1, 0, 0, 0 FROM {known} WHERE event = 'BrokerFenced'
  UNION ALL SELECT explode(gone), 0, 0, 0, 0, 0, 1, 0, 0 FROM {churn}
  UNION ALL SELECT broker, 0, 0, 0, 0, 0, 0, lag_max, truncated_records FROM {replicas})
SELECT broker, sum(leads) AS leads, sum(preferred) AS preferred, sum(in_sync) AS in_sync,
  sum(out) AS out_of_sync, sum(fenced) AS fenced, sum(isr_left) AS isr_left,
  max(lag_max) AS lag_max, sum(truncated) AS truncated_records
FROM facts GROUP BY broker
"""


class Figures(NamedTuple):
    """Tables of figures; `spans` and `lag` are what the others are made of, and pictures."""

    partitions: "DataFrame"
    leader_changes: "DataFrame"
    replicas: "DataFrame"
    brokers: "DataFrame"
    spans: "DataFrame"
    lag: "DataFrame"
    facts: "DataFrame"


def figures(events: "DataFrame", assigned: "DataFrame") -> Figures:
    """`events` as parsed; `assigned` has the replicas of the partitions that exist now."""
    spark = events.sparkSession
    facts = known(events).localCheckpoint()
    spans = spark.sql(SPANS, known=facts, assigned=assigned).localCheckpoint()
    churn = spark.sql(CHURN, known=facts).localCheckpoint()
    changes = spark.sql(CHANGES, known=facts, within_ms=FENCED_WITHIN_MS).localCheckpoint()
    lag = spark.sql(LAG, known=facts, window_ms=LAG_WINDOW_MS).localCheckpoint()
    replicas = spark.sql(REPLICAS, known=facts, lag=lag).localCheckpoint()
    made: dict[str, Any] = {"spans": spans, "churn": churn, "replicas": replicas}
    partitions = spark.sql(PARTITIONS, **made, changes=changes).localCheckpoint()
    brokers = spark.sql(BROKERS, **made, known=facts).localCheckpoint()
    return Figures(partitions, changes, replicas, brokers, spans, lag, facts)
