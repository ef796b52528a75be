"""M49 to M54: rules of access, quotas and logins."""

from typing import Any

from tidelog.core.security import authorizer
from tidelog.core.security.acls import Acl, Operation, PatternType
from tidelog.core.security.authorizer import Authorizer
from tidelog.core.security.quotas import Quotas
from tidelog.core.security.sasl import LoggedIn
from tidelog.rpc.authorization.gate import Gate
from tidelog.rpc.calls import Call
from tidelog.rpc.logins import LoginConnection
from tidelog.sim.mutants.patch import Mutant, Patch


def _no(*_: Any) -> bool:
    return False


def _keep_decisions(authorizer: Authorizer) -> None:
    authorizer.generation += 1


def _not_enforced(quotas: Quotas, throttle_ms: int) -> int:
    return 0


_add = Authorizer.add


def _add_as_literal(authorizer: Authorizer, acl_id: bytes, acl: Acl) -> None:
    _add(authorizer, acl_id, acl._replace(pattern_type=PatternType.LITERAL))


_allows = Gate.allows


def _allows_writes(gate: Gate, call: Call, operation: int, kind: int, name: str) -> bool:
    return operation == Operation.WRITE or _allows(gate, call, operation, kind, name)


_accept = LoginConnection._accept


def _accept_anybody(connection: LoginConnection, done: LoggedIn) -> int | None:
    connection._login = None
    return _accept(connection, done)


MUTANTS: tuple[Mutant, ...] = (
    Mutant("M49", "rules that deny are ignored",
           (Patch(authorizer, "denies", _no),),
           focus=("access",)),
    Mutant("M50", "a prefixed rule is taken for a literal one",
           (Patch(Authorizer, "add", _add_as_literal),),
           focus=("access",)),
    Mutant("M51", "decisions are remembered after the rules have changed",
           (Patch(Authorizer, "forget_decisions", _keep_decisions),),
           focus=("access",)),
    Mutant("M52", "quotas are measured and not enforced",
           (Patch(Quotas, "enforced_ms", _not_enforced),),
           focus=("access",)),
    Mutant("M53", "nobody is asked whether he may write",
           (Patch(Gate, "allows", _allows_writes),),
           focus=("outcasts",)),
    Mutant("M54", "a login that is renewed may become somebody else's",
           (Patch(LoginConnection, "_accept", _accept_anybody),),
           focus=("outcasts",)),
)  # fmt: skip
