from tidelog._native.contract import Buffer

def crc32c_of(data: Buffer, portable: bool = False) -> int: ...
def scan(region: Buffer, check_crc: bool) -> tuple[bytearray, int, int, bool]: ...
def pick(table: Buffer, from_offset: int, to_offset: int, aborted: Buffer) -> bytearray: ...
def advance(plan: Buffer, index: int, budget: int) -> tuple[int, int]: ...
def decode(
    region: Buffer,
    scratch: Buffer,
    table: Buffer,
    plan: Buffer,
    *,
    span: tuple[int, int],
    bounds: tuple[int, int],
    wanted: int,
    limits: tuple[int, int],
) -> tuple[int, int, int, dict[str, bytearray]]: ...
