"""Who somebody is, what they may do and how much of it: pure rules, with Kafka's meanings."""
