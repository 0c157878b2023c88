"""What a client learns when a server refuses its handshake, on both event loops."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Authority
from tests.net.peer import ECHO, connections, peer_at

from cometmq.errors import TLSError
from cometmq.net.tls.client import TLS
from cometmq.net.tls.server import ServerTls
from cometmq.net.tls.settings import ClientAuth, TlsSettings
from cometmq.wire.frame import Command


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("none", r"it (requires|agrees to no cipher .* or requires) a certificate of the client"),
        ("expired", "it does not accept this client's certificate: it has expired"),
        ("a stranger's", "it does not accept this client's certificate: an authority that it does not trust"),
    ],
)
async def test_a_client_learns_why_its_certificate_is_not_accepted(
    tmp_path: Path, version: str, shown: str, words: str
) -> None:
    authority = Authority(tmp_path)
    made = authority.certify()
    signer = Authority(tmp_path, "stranger") if shown == "a stranger's" else authority
    own = signer.certify("client", ends_in=timedelta(days=-1 if shown == "expired" else 1))
    files: dict[str, Any] = {} if shown == "none" else {"cert_file": own.cert, "key_file": own.key}
    settings = TlsSettings(
        tls_server_cert_path=str(made.cert),
        tls_server_key_path=str(made.key),
        tls_server_trust_cert_path=str(authority.cert),
        tls_server_need_client_auth=ClientAuth.REQUIRE,
        tls_protocols=version,
    )

    tls = TLS(ca_file=authority.cert, **files)
    async with peer_at(tls=ServerTls(settings)) as peer, connections(tls=tls) as client:
        with pytest.raises(TLSError, match=words):
            await client.request(peer.address, Command(ECHO))
        assert peer.commands == []
