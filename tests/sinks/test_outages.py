"""What people hear about targets that are down."""

from __future__ import annotations

import random

from streamgmm.sinks.alerts.outage import LONGEST_SILENCE, PATIENCE, Outage


def test_an_outage_is_mentioned_once_for_long() -> None:
    outage = Outage()
    told = [now for now in range(2000) if outage.is_news(0, now)]
    assert told == [
        PATIENCE,
        PATIENCE + LONGEST_SILENCE,
        PATIENCE + 2 * LONGEST_SILENCE,
        PATIENCE + 3 * LONGEST_SILENCE,
    ]
    assert outage.end()
    assert not outage.end()


def test_an_attempt_that_hung_is_news_when_it_fails() -> None:
    assert Outage().is_news(0, 10)
    assert not Outage().is_news(9, 10)


def test_what_needs_somebody_is_mentioned_at_once() -> None:
    outage = Outage()
    assert outage.is_news(0, 0, lasting=True)
    assert not outage.is_news(0, 1, lasting=True)


def test_a_target_that_fails_half_of_the_time_is_mentioned_rarely() -> None:
    """A day with an attempt each second."""
    outage, chance, told = Outage(), random.Random(0), 0
    for now in range(86_400):
        told += outage.is_news(now, now, lasting=True) if chance.random() < 0.5 else outage.end()
    assert 2 <= told <= 10


def test_patience_returns_after_a_quiet_time() -> None:
    outage = Outage()
    assert outage.is_news(0, 3)
    assert outage.end()
    assert not outage.is_news(10, 13)
    assert outage.is_news(10, 18)
    assert outage.end()
    assert outage.is_news(18 + LONGEST_SILENCE, 21 + LONGEST_SILENCE)
