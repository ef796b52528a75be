"""What `spark.py` has measured, in lines and as a table."""

from collections.abc import Sequence
from typing import Any

MEGABYTE = 1_000_000


def line_of(result: dict[str, Any]) -> str:
    begin = f"{result['comparison']:38} {result['side']:38}"
    if "rows_per_second" not in result:
        return f"{begin} not measured: {result.get('refused')}"
    rate, low, high = (
        result[name] / MEGABYTE for name in ("rows_per_second", "slowest", "fastest")
    )
    megabytes, processor = result["megabytes_per_second"], result["processor_seconds"]
    spread = f"({low:.2f} to {high:.2f})"
    line = f"{begin} {rate:6.2f} M/s {spread:16} {megabytes:5d} MB/s {processor:6.1f} cpu s"
    if "trigger_rows_per_second" in result:
        line += f"; running {result['trigger_rows_per_second'] / MEGABYTE:6.2f} M/s"
    uses = ", ".join(f"{kind} {used:.2f}" for kind, used in result["processor_uses"].items())
    line += f"\n    cpu s: {uses}"
    for other, ratio in result.get("ratios", {}).items():
        words = ", ".join(f"{name} {value:.2f} ×" for name, value in ratio.items())
        line += f"\n    beside {other}: {words}"
    return line


def table_of(results: list[dict[str, Any]], places: Sequence[str]) -> str:
    """For documents: a line for each comparison and side of ours, which are on the first of the
    places. Cells are million rows per second and processor seconds, with how many times as fast
    ours is beside those of others."""
    ours, *_ = places
    heads = [f"ours on {ours}", *(f"stock on {each}" for each in places)]
    lines = [f"| | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for result in results:
        if "ratios" not in result:
            continue
        by_side = {
            each["side"]: each
            for each in results
            if each["comparison"] == result["comparison"] and "rows_per_second" in each
        }
        cells = [cell(by_side.get(result["side"]))]
        for place in places:
            stock = f"kafka on {place}"
            ratio = result["ratios"].get(stock)
            beside = f", **{ratio['rate']:.2f} ×**" if ratio else ""
            cells.append(cell(by_side.get(stock)) + beside)
        name = f"{result['comparison']}: {result['side'].removesuffix(f' on {ours}')}"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    return f"{result['rows_per_second'] / MEGABYTE:.2f} ({result['processor_seconds']:.1f} s)"
