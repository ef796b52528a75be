from tidelog._native.contract import Buffer

def walk(
    plain: Buffer,
    start: int,
    record_count: int,
    base_timestamp: int,
    max_items: int,
) -> tuple[int, int, int] | None: ...
