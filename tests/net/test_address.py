import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import SettingsError
from cometmq.net.address import address_text, parse_address, parse_name_servers


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        ("broker-a.example:0", "broker-a.example", 0),
        ("localhost:65535", "localhost", 65535),
        ("[::1]:10911", "::1", 10911),
        ("[fe80::1%eth0]:10911", "fe80::1%eth0", 10911),
        ("[::ffff:192.0.2.1]:1", "::ffff:192.0.2.1", 1),
    ],
)
def test_reads_what_it_writes(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert address_text(host, port) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        ":9876",
        "localhost:",
        "localhost:65536",
        "localhost:-1",
        "localhost:９８７６",
        "::1:9876",
        "[::1]",
        "[]:1",
        "http://localhost:9876",
        "a b:1",
        "localhost:1\n",
        "a" * 254 + ":1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(SettingsError, match="write it as host:port") as caught:
        parse_address(text)
    assert len(str(caught.value)) < 400


@given(st.text(max_size=40))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        host, port = parse_address(text)
    except SettingsError:
        return
    assert host and 0 <= port <= 65535


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9876", ["127.0.0.1:9876"]),
        ("a:1;b:2", ["a:1", "b:2"]),
        (" a:1 ; [::1]:2 ;", ["a:1", "[::1]:2"]),
    ],
)
def test_name_servers_are_read_as_rocketmq_writes_them(text: str, expected: list[str]) -> None:
    assert parse_name_servers(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "give at least one host:port"),
        (" ; ", "give at least one host:port"),
        ("localhost", "address 'localhost': write it as host:port"),
        ("a:1;b", "address 'b': write it as host:port"),
        ("a:1,b:2", "address 'a:1,b:2'"),
        ("a:99999", "port 0–65535"),
    ],
)
def test_what_is_no_name_server_is_refused_with_how_to_write_it(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_name_servers(text)
