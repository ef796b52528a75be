"""The demo's own bookkeeping: what it would say if something were wrong."""

import json
import sys
from decimal import Decimal

import pytest

from tidelog.cli.demo.book import Answered, Book, Sale, Total, sale_of, totals
from tidelog.cli.demo.facts import Facts, Killed, Replicas, Returned, Sold
from tidelog.cli.demo.orders import LATE_MS_MAX, MINUTE_MS, OPENS_MS, Shop
from tidelog.cli.demo.report import as_document, rows
from tidelog.cli.demo.requirements import check_spark
from tidelog.cli.demo.selling import longest_silence_ms
from tidelog.cli.demo.spark_queries import Flow
from tidelog.cli.demo.story import exit_code
from tidelog.cli.demo.till import by_partition
from tidelog.cli.demo.verdict import Accounts, WindowValue, judge, window_name
from tidelog.cli.failure import CommandError
from tidelog.client.partitioner import partition_of_key

SHOP = Shop(orders=600, minutes=5)
PARTITIONS = 3


def sold(shop=SHOP):
    """Every order acknowledged where its key belongs."""
    book = Book()
    for partition, orders in sorted(by_partition(shop.sell(), PARTITIONS).items()):
        book.acknowledge(orders, partition, offset=10, at=1.0)
    return book


def accounts(book):
    """As it must be: everybody has the same."""
    windows = [
        WindowValue(minute, currency, total.orders, total.cents)
        for (minute, currency), total in totals(book.acknowledged).items()
        if minute * MINUTE_MS < SHOP.closes_ms
    ]
    return Accounts(
        acknowledged=book.acknowledged,
        in_doubt=frozenset(book.in_doubt),
        topic=list(reversed(book.acknowledged)),
        table=list(book.acknowledged),
        revenue=windows,
        closes_ms=SHOP.closes_ms,
    )


def test_a_shop_sells_the_same_again_and_closes_its_day_with_an_order_of_the_next():
    orders = list(SHOP.sell())
    assert orders == list(SHOP.sell())
    assert orders != list(SHOP._replace(seed=1).sell())
    *day, last = orders
    assert len(day) == 600
    assert len({order.order_id for order in orders}) == 601
    assert {order.minute - OPENS_MS // MINUTE_MS for order in day} == set(range(5))
    assert last.event_time_ms > SHOP.closes_ms + MINUTE_MS
    newest = 0
    for order in day:
        newest = max(newest, order.event_time_ms)
        assert newest - order.event_time_ms <= LATE_MS_MAX, "later than readers wait for"
    assert {order.currency for order in day} == {"EUR", "USD", "GBP"}


def test_a_customer_pays_with_one_currency_and_prices_survive_json():
    paid = {}
    for order in SHOP.sell():
        assert paid.setdefault(order.customer, order.currency) == order.currency
        document = json.loads(order.as_json(), parse_float=Decimal)
        assert Decimal(document["unit_price"]) * 100 * document["quantity"] == order.cents
        assert document["event_time"].endswith("Z")


def test_orders_are_placed_by_their_customer_as_every_client_does():
    placed = by_partition(SHOP.sell(), PARTITIONS)
    assert sorted(placed) == [0, 1, 2]
    for partition, orders in placed.items():
        for order in orders:
            assert partition_of_key(order.customer.encode(), PARTITIONS) == partition


def test_equal_accounts_hold():
    verdict = judge(accounts(sold()))
    assert verdict.holds, verdict
    assert verdict.acknowledged == verdict.topic == verdict.table == 601
    assert verdict.windows == 15
    assert verdict.examples == []
    assert sum(verdict.cents.values()) == sum(order.cents for order in list(SHOP.sell())[:-1])


def changed(name, change):
    before = accounts(sold())
    return before._replace(**{name: change(list(getattr(before, name)))})


def costs_a_cent_more(values):
    return [values[0]._replace(cents=values[0].cents + 1), *values[1:]]


@pytest.mark.parametrize(
    ("name", "change", "wrong", "words"),
    [
        ("topic", lambda rows: rows[1:], "lost", "acknowledged and not in the topic: o-"),
        ("topic", lambda rows: [*rows, rows[0]], "unexpected", "never acknowledged"),
        (
            "topic",
            lambda rows: [rows[0]._replace(offset=99_999), *rows[1:]],
            "lost",
            "offset 99999",
        ),
        ("topic", costs_a_cent_more, "lost", "acknowledged and not in the topic"),
        ("table", lambda rows: rows[1:], "lost_in_table", "and not in the table"),
        ("table", lambda rows: [*rows, rows[0]], "unexpected_in_table", "in the table and not"),
        ("table", costs_a_cent_more, "unexpected_in_table", "in the table and not"),
        ("revenue", lambda rows: rows[1:], "wrong_windows", "nothing in the topic"),
        ("revenue", lambda rows: [*rows, rows[0]], "wrong_windows", "and again"),
        ("revenue", costs_a_cent_more, "wrong_windows", "revenue of 09:0"),
        (
            "revenue",
            lambda rows: [*rows, WindowValue(1, "EUR", 1, 1)],
            "wrong_windows",
            "nothing acknowledged",
        ),
    ],
)
def test_whatever_is_not_the_same_is_found_and_named(name, change, wrong, words):
    verdict = judge(changed(name, change))
    assert not verdict.holds
    assert getattr(verdict, wrong) > 0
    assert any(words in line for line in verdict.examples), verdict.examples


def facts(found, *, differences=()):
    nothing = Flow([])
    killed, returned = Killed(1, [0], 1.0, 1.0, 1.0), Returned(2.0, 1.0)
    sold_ = Sold(0.0, 1.0, [], totals(found.acknowledged), [])
    return Facts(
        1.0,
        1.0,
        sold_,
        killed,
        returned,
        1.0,
        nothing,
        nothing,
        list(found.revenue),
        found.closes_ms,
        Replicas(1, 1, 1.0, list(differences)),
        judge(found),
    )


def test_a_mismatch_is_exit_code_5_and_stands_in_the_report():
    good = facts(accounts(sold()))
    assert exit_code(good) == 0
    assert ("in the topic", "601 orders, the same ones at the same offsets") in rows(good)
    lost = facts(changed("table", lambda sales: sales[1:]))
    assert exit_code(lost) == 5
    assert ("in the table", "600 orders: 1 LOST, 0 UNEXPECTED") in rows(lost)
    assert as_document(lost)["verdict"]["holds"] is False
    dear = facts(changed("revenue", costs_a_cent_more))
    assert exit_code(dear) == 5
    assert ("revenue", "15 windows, 1 WRONG") in rows(dear)
    assert exit_code(facts(accounts(sold()), differences=["orders-0: …"])) == 5


def test_missing_packages_are_named_with_what_else_there_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(CommandError) as refused:
        check_spark()
    assert refused.value.why == "not installed: pyspark"
    assert "tidelog demo --without-spark" in refused.value.advice


def test_an_order_in_doubt_may_be_there_once_or_not_at_all():
    doubtful, *others = SHOP.sell()
    book = Book()
    for partition, orders in by_partition(others, PARTITIONS).items():
        book.acknowledge(orders, partition, offset=0, at=1.0)
    book.doubt([doubtful], "no answer")
    without = accounts(book)
    assert judge(without).holds
    there = sale_of(doubtful, 0, 50_000)
    both = Book()
    both.acknowledged = [*book.acknowledged, there]
    with_it = accounts(both)._replace(
        acknowledged=book.acknowledged, in_doubt=frozenset([doubtful.order_id])
    )
    assert judge(with_it).holds
    assert not judge(with_it._replace(table=book.acknowledged)).holds, "the table misses it"
    twice = [*with_it.topic, there._replace(offset=50_001)]
    assert judge(with_it._replace(topic=twice, table=twice)).unexpected == 1


def test_the_longest_silence_is_that_of_one_partition_around_a_moment():
    answers = [
        *(Answered(0, 1, at) for at in (1.0, 1.1, 1.7, 1.8, 9.0)),
        *(Answered(1, 1, at) for at in (1.0, 1.2, 1.4, 1.6, 1.8)),
    ]
    assert longest_silence_ms(answers, 1.2, 1.3) == pytest.approx(600)
    assert longest_silence_ms(answers, 1.85, 1.9) == pytest.approx(7200)


def test_sums_are_per_minute_and_currency():
    sales = [Sale(0, 0, "a", 7, "EUR", 150), Sale(1, 0, "b", 7, "EUR", 50)]
    assert totals(sales) == {(7, "EUR"): Total(2, 200)}
    assert window_name((9 * 60 + 7, "EUR")) == "09:07 EUR"
