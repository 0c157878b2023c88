"""The requests of the table of verdicts: a legal one of each code, and some that leave out what they may.

RocketMQ 5.5.0 looks at the header alone: a request that names no topic, or a message by its place, is one
that it does not check. So these are cases of their own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tests.kit.request_bodies import BODIES, GROUP, TOPIC, fields_with_names
from tests.verdicts.senders import Sender, Wanted

from cometmq.access.needs import NAMELESS
from cometmq.format.sys_flag import TRANSACTION_ROLLBACK
from cometmq.wire import batch, bodies
from cometmq.wire.bodies import Body, ConsumerData, Heartbeat, ProducerData, SubscriptionData
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from cometmq.wire.bodies.controller import SyncStateSet
from cometmq.wire.codes import RequestCode
from cometmq.wire.requests import TO_BROKERS, TO_NAME_SERVERS, Access, Action, Request, Resource

OTHER_TOPIC: Final = "secret"
OTHER_GROUP: Final = "b1"
SUBJECT_USER: Final = "someone"
"""The user that requests about users are for."""

_PUB: Final = Access(Resource.TOPIC, (Action.PUB,))
_SUB: Final = Access(Resource.TOPIC, (Action.SUB,))
_GET: Final = Access(Resource.TOPIC, (Action.GET,))
_UPDATE: Final = Access(Resource.TOPIC, (Action.UPDATE,))
_CLUSTER_GET: Final = Access(Resource.CLUSTER, (Action.GET,))
_CLUSTER_UPDATE: Final = Access(Resource.CLUSTER, (Action.UPDATE,))


class Places(NamedTuple):
    """Where two messages are stored: one of the topic that requests name, one of another topic.

    Attributes:
        offset: physical offset of the first; ``offset_id`` its offset message id.
        other_offset: physical offset of the second.
    """

    offset: int
    offset_id: str
    other_offset: int


class Case(NamedTuple):
    """A request.

    Attributes:
        note: what is special about it; empty for the usual request of its code.
        wanted: the permissions that its sender needs here.
    """

    code: RequestCode
    note: str
    wanted: Wanted
    fields: Mapping[str, str]
    body: bytes = b""

    def __str__(self) -> str:
        return f"{int(self.code)} {self.code.name}{self.note and f' ({self.note})'}"

    def body_of(self, sender: Sender) -> bytes:
        """Return the body as one sender sends it: a client id belongs to one user."""
        return self.body.replace(b"CLIENT", f"{self.code}-{sender.name}".encode())


def broker_cases(places: Places) -> list[Case]:
    """Return the requests to a broker, in the order of their codes."""
    usual = [_usual(code, request, places) for code, request in TO_BROKERS.items()]
    return sorted([*usual, *_special_cases(places)], key=lambda case: (case.code, case.note))


def name_server_cases() -> list[Case]:
    """Return the requests to a name server, in the order of their codes."""
    nowhere = Places(0, "", 0)
    return [_usual(code, request, nowhere) for code, request in sorted(TO_NAME_SERVERS.items())]


def wanted_sets(cases: Iterable[Case]) -> dict[Wanted, int]:
    """Return the sets of permissions that requests need, each with its number."""
    return {wanted: number for number, wanted in enumerate(dict.fromkeys(case.wanted for case in cases))}


def _usual(code: RequestCode, request: Request, places: Places) -> Case:
    fields = fields_with_names(request) | _fields_of(code, places)
    wanted = request.access
    if code is RequestCode.CONSUMER_SEND_MSG_BACK:
        wanted = (*wanted, _SUB)  # of the message that it names by its place
    return Case(code, "", wanted, fields, _body_of(code, request))


def _fields_of(code: RequestCode, places: Places) -> dict[str, str]:
    """Return the fields of a request whose value must be a certain one, or whose topic may be missing."""
    match code:
        case RequestCode.VIEW_MESSAGE_BY_ID | RequestCode.CONSUMER_SEND_MSG_BACK:
            return {"offset": str(places.offset)}
        case RequestCode.END_TRANSACTION:
            # A Java broker does not answer one that neither commits nor rolls back.
            return {
                "commitLogOffset": str(places.offset),
                "msgId": places.offset_id,
                "commitOrRollback": str(TRANSACTION_ROLLBACK),
            }
        case RequestCode.RESUME_CHECK_HALF_MESSAGE | RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return {"msgId": places.offset_id}
        case (
            RequestCode.AUTH_CREATE_USER
            | RequestCode.AUTH_UPDATE_USER
            | RequestCode.AUTH_GET_USER
            | RequestCode.AUTH_DELETE_USER
        ):
            return {"username": SUBJECT_USER}
        case (
            RequestCode.AUTH_CREATE_ACL
            | RequestCode.AUTH_UPDATE_ACL
            | RequestCode.AUTH_GET_ACL
            | RequestCode.AUTH_DELETE_ACL
        ):
            return {"subject": f"User:{SUBJECT_USER}"}
        case RequestCode.UPDATE_AND_CREATE_TOPIC:
            return {
                "readQueueNums": "4",
                "writeQueueNums": "4",
                "perm": "6",
                "topicFilterType": "SINGLE_TAG",
            }
        case _:
            return {}


def _body_of(code: RequestCode, request: Request) -> bytes:
    if code is RequestCode.SEND_BATCH_MESSAGE:
        return batch.encode_one(b"x", b"")
    return b"" if request.body is None else _encoded(_BODIES[request.body])


_ACL: Final = AclInfo(
    f"User:{SUBJECT_USER}",
    [PolicyInfo("Custom", [PolicyEntryInfo(f"Topic:{TOPIC}", ["Pub"], None, "Allow")])],
)
_BODIES: Final[dict[type[Body], Body]] = {
    **BODIES,
    Heartbeat: Heartbeat("CLIENT", consumers=[ConsumerData(GROUP, [SubscriptionData(TOPIC)])]),
    UserInfo: UserInfo(SUBJECT_USER, "12345678", "Normal", "enable"),
    AclInfo: _ACL,
    SyncStateSet: SyncStateSet(frozenset({1}), 1),
}


def _encoded(body: Body) -> bytes:
    return bodies.encode(body, standard=True)


def _special_cases(places: Places) -> Iterator[Case]:
    def made(
        code: RequestCode, note: str, wanted: Wanted, change: Callable[[dict[str, str]], object]
    ) -> Case:
        usual = _usual(code, TO_BROKERS[code], places)
        fields = dict(usual.fields)
        change(fields)
        return usual._replace(note=note, wanted=wanted, fields=fields)

    def without_topic(fields: dict[str, str]) -> None:
        del fields["topic"]

    view, ended = RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.END_TRANSACTION
    yield made(view, "without a topic", (_CLUSTER_GET, _GET), without_topic)
    others_offset = {"offset": str(places.other_offset)}
    yield made(view, "another topic's message", (_GET,), lambda fields: fields.update(others_offset))
    yield made(ended, "without a topic", (_PUB,), without_topic)
    resumed = RequestCode.RESUME_CHECK_HALF_MESSAGE
    yield made(resumed, "without a topic", (_CLUSTER_UPDATE, _UPDATE), without_topic)
    cloned = RequestCode.CLONE_GROUP_OFFSET
    change = {"srcGroup": OTHER_GROUP}
    wanted = TO_BROKERS[cloned].access
    yield made(cloned, "another group's offsets", wanted, lambda fields: fields.update(change))
    producing = _encoded(Heartbeat("CLIENT", producers=[ProducerData(GROUP)]))
    yield Case(RequestCode.HEART_BEAT, "of a producer", (), {}, producing)
    leaving = {"clientID": "c", "producerGroup": GROUP}
    yield Case(RequestCode.UNREGISTER_CLIENT, "of a producer", (), leaving)
    assert {RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, ended} == NAMELESS.keys()
