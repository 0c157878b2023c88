import socket

from cometmq.client.identity import client_id, own_address


def test_a_client_is_called_by_its_address_and_its_instance() -> None:
    assert client_id("billing-1") == f"{socket.inet_ntoa(own_address())}@billing-1"


def test_without_an_instance_no_two_are_called_the_same() -> None:
    assert client_id() != client_id()
