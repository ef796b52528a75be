"""How long brokers fall silent while a cluster does something large."""
