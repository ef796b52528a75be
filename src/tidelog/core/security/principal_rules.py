"""From the subject of a certificate to a user name: `ssl.principal.mapping.rules` (KIP-371).

    RULE:^CN=(.*?),OU=brokers.*$/$1/L, RULE:^CN=([^,]+).*$/$1/, DEFAULT

The first rule whose expression matches the whole subject gives the name; L and U at its end make
it lower or upper case. DEFAULT leaves the subject as it is, and so does an empty list.
"""

import re
from typing import NamedTuple

DEFAULT = "DEFAULT"

_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_REFERENCE = re.compile(r"\$(\d)")


class PrincipalRule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None is DEFAULT."""
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        if found is None:
            return None
        name = _REFERENCE.sub(lambda ref: found[int(ref[1])] or "", self.replacement)
        if self.case == "L":
            return name.lower()
        return name.upper() if self.case == "U" else name


PrincipalRules = tuple[PrincipalRule, ...]


def parse_rules(text: str) -> PrincipalRules:
    """ValueError says which part is no rule."""
    rules: list[PrincipalRule] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(f"no rule: {text[position:]!r}")
        position = found.end()
        rules.append(_rule(found))
    return tuple(rules)


def user_name(rules: PrincipalRules, subject: str) -> str | None:
    """None if there are rules and none of them matches: such a certificate is nobody's."""
    if not rules:
        return subject
    names = (rule.apply(subject) for rule in rules)
    return next((name for name in names if name is not None), None)


def _rule(found: re.Match[str]) -> PrincipalRule:
    if found["default"]:
        return PrincipalRule(None)
    try:
        pattern = re.compile(found["pattern"].replace("\\/", "/"))
    except re.error as reason:
        raise ValueError(f"{found['pattern']!r} is no regular expression: {reason}") from None
    replacement = found["replacement"].replace("\\/", "/")
    for reference in _REFERENCE.findall(replacement):
        if int(reference) > pattern.groups:
            raise ValueError(f"${reference} names a group that {found['pattern']!r} does not have")
    return PrincipalRule(pattern, replacement, found["case"])
