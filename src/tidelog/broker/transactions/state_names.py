"""The states of transactions as admin clients call them."""

from tidelog.core.transactions.records import TransactionState

_NAMES = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
}
STATES_BY_NAME = {name: state for state, name in _NAMES.items()}


def state_name(state: TransactionState) -> str:
    return _NAMES[state]
