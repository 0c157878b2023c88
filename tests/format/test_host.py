from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.host import host_text, pack_host, unpack_host

ports = st.integers(0, 65535)


@given(st.binary(min_size=4, max_size=4).map(IPv4Address), ports)
def test_ipv4_takes_8_bytes(ip: IPv4Address, port: int) -> None:
    data = pack_host(str(ip), port)
    assert data == ip.packed + port.to_bytes(4, "big")
    assert unpack_host(data) == (str(ip), port)
    assert host_text(memoryview(data)) == f"{ip}:{port}"


@given(st.binary(min_size=16, max_size=16).map(IPv6Address), ports)
def test_ipv6_takes_20_bytes(ip: IPv6Address, port: int) -> None:
    assume(ip.ipv4_mapped is None)
    data = pack_host(str(ip), port)
    assert data == ip.packed + port.to_bytes(4, "big")
    assert unpack_host(data) == (str(ip), port)
    assert host_text(data) == f"[{ip}]:{port}"


def test_ipv4_mapped_into_ipv6_is_ipv4() -> None:
    assert pack_host("::ffff:127.0.0.1", 10911) == pack_host("127.0.0.1", 10911)


def test_a_scope_is_left_out() -> None:
    assert pack_host("fe80::1%eth0", 1) == pack_host("fe80::1", 1)


@pytest.mark.parametrize("ip", ["", "localhost", "1.2.3", "1.2.3.256", "::g", "1:2"])
def test_refuses_what_is_no_address(ip: str) -> None:
    with pytest.raises(FormatError, match="not an IP address"):
        pack_host(ip, 1)


@pytest.mark.parametrize("port", [-1, 65536])
def test_refuses_what_is_no_port(port: int) -> None:
    with pytest.raises(FormatError, match=f"port {port} "):
        pack_host("127.0.0.1", port)


@pytest.mark.parametrize("size", [0, 4, 7, 9, 16, 21])
def test_refuses_other_sizes(size: int) -> None:
    with pytest.raises(FormatError, match=f"host of {size} bytes: must have 8 or 20"):
        host_text(bytes(size))


def test_reads_damaged_ports_too() -> None:
    assert unpack_host(b"\x7f\0\0\x01\xff\xff\xff\xff") == ("127.0.0.1", -1)
