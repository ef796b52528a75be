"""Leader and follower replica: epochs, high watermark, ISR proposals, truncation.

Where the chapters of the source documents are:

    Leader epoch                            epochs.EpochHistory
    Follower fetch request                  follower.FollowerReplica.next_fetch
    Follower fetch response                 leader.LeaderReplica.on_follower_fetch
    Committing partition offsets            leader.LeaderReplica.committed_offset
    Advancing the follower high watermark   follower.FollowerReplica.followed_high_watermark
    Handling leader failure                 replica.Replica.apply_metadata
    Temporary decreased high watermark      reads.is_awaiting_high_watermark
    Partition replica reconciliation        reads.diverges, follower.truncation_offset
    Handling failed or slow followers       leader.LeaderReplica.out_of_sync, may_join_isr, isr
    Producer acknowledgment, min ISR        leader.LeaderReplica.check_produce, await_commit
    Follower fetching (consumers)           selector, follower.FollowerReplica.read_limit

A `Replica` is one hosted partition and has one role at a time. The shell asks it, performs the
effects it returns on the log (`log_view`), and reports back.
"""
