"""The value of `sasl.jaas.config`, as Java's clients and brokers write it.

org.apache.kafka.common.security.plain.PlainLoginModule required
  username="node1" password="secret" user_node1="secret" user_alice="alices";
"""

import re
from typing import NamedTuple

FLAGS = ("required", "requisite", "sufficient", "optional")
USER_PREFIX = "user_"

_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;="]+)|([=;]))')


class JaasEntry(NamedTuple):
    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        """Passwords never reach a log."""
        return f"JaasEntry({self.module}: {', '.join(self.options)})"

    @property
    def users(self) -> dict[str, str]:
        """Whom the PLAIN mechanism of a broker lets in, with their passwords."""
        named = self.options.items()
        return {
            name.removeprefix(USER_PREFIX): value
            for name, value in named
            if name.startswith(USER_PREFIX)
        }


def parse_jaas(text: str) -> JaasEntry:
    """ValueError says what is missing, without a word of what was given: it has passwords."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ";":
        raise ValueError("it does not end with a semicolon")
    module, flag, *rest = tokens[:-1]
    if flag not in FLAGS:
        raise ValueError(f"after the login module comes one of {', '.join(FLAGS)}")
    if len(rest) % 3 or any(rest[at] != "=" for at in range(1, len(rest), 3)):
        raise ValueError("its options are not name=value pairs")
    return JaasEntry(module, dict(zip(rest[::3], rest[2::3], strict=True)))


def quoted(text: str) -> str:
    """A value as it may stand in such a text."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position, text = 0, text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError("a quote is not closed")
        position = found.end()
        inside, bare, sign = found.groups()
        if inside is not None:
            tokens.append(re.sub(r"\\(.)", r"\1", inside))
        else:
            tokens.append(bare or sign)
    return tokens
