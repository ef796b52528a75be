"""Consumer groups: who reads which partition, and how far they have come.

Two protocols under one roof. In the classic one the members elect a leader among themselves that
assigns partitions, and the coordinator only passes papers round. In the consumer protocol
(KIP-848) the coordinator assigns, and members reconcile one by one.
"""
