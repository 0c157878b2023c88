"""Requests about a set of brokers: to one that is in none, and to one that is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.conftest import SMALL, serving
from tests.replication.controller.parts import OverseerOfTest, membership_of
from tests.store.conftest import new_message

from cometmq.broker.admin.broker_set import NO_CONTROLLER, SetRequests
from cometmq.broker.settings_by_subject import IdentitySettings
from cometmq.replication.controller.life import MasterNews
from cometmq.replication.epochs import EpochList
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.controller import EpochsOfBroker, EpochSpan
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import NoFields
from cometmq.wire.headers.controller import MasterHeader

ANYBODY: Any = None


async def test_a_broker_without_a_controller_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for code in (RequestCode.GET_BROKER_EPOCH_CACHE, RequestCode.NOTIFY_BROKER_ROLE_CHANGED):
            answer = await bench.ask(code)
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, NO_CONTROLLER)


@contextmanager
def set_requests(root: Path) -> Iterator[tuple[SetRequests, OverseerOfTest, MessageStore]]:
    identity = IdentitySettings(broker_name="b", broker_cluster_name="c", broker_id=0)
    with MessageStore.open(root, StoreSettings(**SMALL)) as store:
        membership, overseer = membership_of(root, MasterNews(1, "m:1", 2), EpochList.of((1, 0), (2, 714)))
        yield SetRequests(membership, store, identity), overseer, store


def test_the_last_epoch_has_no_end(tmp_path: Path) -> None:
    with set_requests(tmp_path) as (requests, _, store):
        store.append([new_message()])
        command = Command(RequestCode.GET_BROKER_EPOCH_CACHE)
        answer = decode(EpochsOfBroker, requests.answer_epochs(ANYBODY, command, NoFields()).body)
        spans = [EpochSpan(1, 0, 714), EpochSpan(2, 714, 2**63 - 1)]
        assert answer == EpochsOfBroker("c", "b", 0, spans, store.written_offset)


def test_nothing_that_a_notice_says_is_believed(tmp_path: Path) -> None:
    with set_requests(tmp_path) as (requests, overseer, _):
        command = Command(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, body=b"{}")
        answer = requests.take_notice(ANYBODY, command, MasterHeader(2, "127.0.0.1:1", 5, 7))
        assert answer.code == ResponseCode.SUCCESS and overseer.said == ["notice"]
