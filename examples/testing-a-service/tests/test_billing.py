"""The service: an invoice for every order, never two, whatever goes wrong in between."""

import json

import pytest
from billing.orders import OrderWriter
from billing.service import Billing

ORDERS = [{"customer": name, "cents": 100} for name in ("ann", "bob", "cyd")]


@pytest.fixture
def service(tidelog):
    """With topics of its own, and three orders that wait."""
    orders, invoices = tidelog.topic("orders"), tidelog.topic("invoices")
    OrderWriter(tidelog.bootstrap_servers, orders).send(ORDERS)
    made = Billing(tidelog.bootstrap_servers, orders, invoices, group=f"billing-of-{orders}")
    yield made, invoices
    made.close()


def customers(tidelog, invoices):
    read = tidelog.records(invoices, committed=True)
    return [json.loads(each.record.value)["customer"] for each in read]


def test_every_order_gets_an_invoice(tidelog, service):
    billing, invoices = service
    assert billing.bill(3) == 3
    assert customers(tidelog, invoices) == ["ann", "bob", "cyd"]


def test_an_aborted_transaction_is_tried_again_and_nobody_pays_twice(tidelog, service):
    billing, invoices = service
    tidelog.answer_next("TxnOffsetCommit", "ILLEGAL_GENERATION")
    assert billing.bill(3) == 3
    assert billing.aborted == 1
    assert customers(tidelog, invoices) == ["ann", "bob", "cyd"]


def test_a_coordinator_that_moves_is_found_again(tidelog, service):
    billing, invoices = service
    tidelog.answer_next("EndTxn", "NOT_COORDINATOR", times=2)
    tidelog.answer_next("AddOffsetsToTxn", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    assert billing.bill(3) == 3
    assert (billing.aborted, customers(tidelog, invoices)) == (0, ["ann", "bob", "cyd"])
