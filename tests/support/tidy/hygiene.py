"""What must never lie in the checkout, whatever the kind of file."""

import re
from pathlib import Path

from .source import Finding, files

FILE_BYTES_MAX = 2 * 1024 * 1024

# Spelt in pieces, so that this file does not find itself.
UNFINISHED = re.compile(
    r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b"
)
MACHINE_PATH = re.compile(
    r"(?<![\w.~/-])/(" + "|".join(("home", "root", "Users", "work", "mnt", "tmp")) + r")/\w"
)
# A host of that name, in an address or by its domain; `tidelog.registry` is a package of ours.
REGISTRY = re.compile(
    "|".join(("index" + "-url", "python" + "hosted", "arti" + "factory"))
    + "|"
    + r"\bpy" + r"pi\.\w"
    + "|" + r"//(?:[\w-]+[.@:])*regis" + r"try\.\w"
    + "|" + r"\bregis" + r"try\.(?:[\w-]+\.)*(?:cloud|com|corp|dev|internal|io|lan|local|net|org)\b"
)  # fmt: skip

RULES = (
    (UNFINISHED, "unfinished work is written down in an issue, not in the file"),
    (MACHINE_PATH, "a path of one machine"),
    (REGISTRY, "a package registry belongs in the settings of a machine"),
)


def untidy_text(path: str, text: str) -> list[Finding]:
    return [
        Finding(path, number, f"{match.group().strip()}: {why}")
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, why in RULES
        if (match := pattern.search(line))
    ]


def untidy_files(root: Path) -> list[Finding]:
    findings = []
    for path in files(root):
        name = path.relative_to(root).as_posix()
        data = path.read_bytes()
        if len(data) > FILE_BYTES_MAX:
            findings.append(Finding(name, 1, f"{len(data)} bytes, {FILE_BYTES_MAX} allowed"))
        if b"\0" not in data:
            findings.extend(untidy_text(name, data.decode("utf-8", errors="replace")))
    return findings
