class Judge:
    def __init__(self, world, report): self.world=world
    def metadata_committed(self, node_id, entry): self.world.metadata_committed(entry)
    def __getattr__(self, name):
        return lambda *a: None
