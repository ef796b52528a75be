from tidelog._native.contract import Buffer

def follow(
    region: Buffer, next_offset: int, end_offset: int, leader_epoch: int
) -> tuple[int, int]: ...
