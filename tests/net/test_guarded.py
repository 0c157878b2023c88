from typing import cast

from cometmq.message import Buffer
from cometmq.net.guarded import Guarded
from cometmq.net.session import Session
from cometmq.wire.acl import ACCESS_KEY
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, RESPONSE_FLAG, Command


class SharedParts:
    refused_requests = 0


class Peer:
    peer = ("192.0.2.1", 5)
    newcomers = None
    user = ""

    def __init__(self) -> None:
        self.shared = SharedParts()
        self.sent: list[Command] = []
        self.refused = 0
        self.closed = False

    def abort(self, reason: str) -> None:
        assert "its address" in reason
        self.closed = True

    def count_refused(self) -> None:
        self.refused += 1

    def send(self, data: Buffer | Command) -> None:
        assert isinstance(data, Command)
        self.sent.append(data)


class Handler:
    def __init__(self) -> None:
        self.handled: list[list[Command]] = []
        self.is_closed = False

    def handle(self, session: Session, commands: list[Command]) -> None:  # noqa: ARG002  a RequestHandler takes it
        self.handled.append(commands)

    def closed(self, session: Session) -> None:  # noqa: ARG002  a RequestHandler takes it
        self.is_closed = True


class OddCheck:
    """Refuses requests with even codes; after the first one with code 10 their sender is suspect."""

    def __init__(self) -> None:
        self.has_seen_10 = False

    def refusal(self, command: Command, address: str) -> str | None:
        assert address == "192.0.2.1"
        if command.code == 0:
            raise KeyError("a secret")
        self.has_seen_10 |= command.code == 10
        return None if command.code % 2 else f"{command.code} is even"

    def is_signed(self, command: Command) -> bool:
        return command.code % 2 == 1

    def is_suspect(self, address: str) -> bool:
        assert address == "192.0.2.1"
        return self.has_seen_10


def handled(*commands: Command) -> tuple[list[list[Command]], list[Command]]:
    peer, handler = Peer(), Handler()
    Guarded(handler, OddCheck()).handle(cast(Session, peer), list(commands))
    return handler.handled, peer.sent


def test_refused_requests_are_answered_and_the_others_handled_in_order() -> None:
    commands = [Command(code, opaque=code) for code in (1, 2, 3, 4, 5)]
    peer, handler = Peer(), Handler()
    Guarded(handler, OddCheck()).handle(cast(Session, peer), commands)
    passed, sent = handler.handled, peer.sent
    assert passed == [[commands[0], commands[2], commands[4]]]
    assert peer.shared.refused_requests == peer.refused == 2
    assert [(one.opaque, one.code, one.remark) for one in sent] == [
        (2, ResponseCode.NO_PERMISSION, "2 is even"),
        (4, ResponseCode.NO_PERMISSION, "4 is even"),
    ]


def test_a_refused_one_way_request_is_dropped_silently() -> None:
    assert handled(Command(2, flag=ONEWAY_FLAG)) == ([], [])


def test_responses_pass_unchecked() -> None:
    command = Command(2, flag=RESPONSE_FLAG)
    assert handled(command) == ([[command]], [])


def test_a_check_that_fails_lets_nothing_pass() -> None:
    passed, sent = handled(Command(0), Command(1))
    assert passed == [[Command(1)]]
    assert [one.code for one in sent] == [ResponseCode.SYSTEM_ERROR]


def test_a_suspect_loses_its_connection_with_the_next_refused_request() -> None:
    peer, handler = Peer(), Handler()
    guarded = Guarded(handler, OddCheck())
    guarded.handle(cast(Session, peer), [Command(1), Command(10), Command(3)])
    assert peer.closed
    assert not peer.sent
    assert handler.handled == [[Command(1)]]
    guarded.handle(cast(Session, peer), [Command(5)])
    assert handler.handled == [[Command(1)]]


def test_a_closed_session_is_passed_on() -> None:
    handler = Handler()
    Guarded(handler, OddCheck()).closed(cast(Session, Peer()))
    assert handler.is_closed


def test_each_request_is_handled_as_its_own_users() -> None:
    users: list[tuple[str, list[int]]] = []

    class Seeing(Handler):
        def handle(self, session: Session, commands: list[Command]) -> None:
            users.append((session.user, [command.code for command in commands]))

    commands = [
        Command(code, ext_fields={ACCESS_KEY: user}) for code, user in ((1, "ann"), (3, "ann"), (5, "bob"))
    ]
    Guarded(Seeing(), OddCheck()).handle(cast(Session, Peer()), [*commands, Command(7)])
    assert users == [("ann", [1, 3]), ("bob", [5]), ("", [7])]
