"""What is said of files that are not what they should be."""

import os
import ssl
from pathlib import Path

import pytest
from tests.certificates import Authority

from cometmq.errors import SettingsError
from cometmq.net.tls.pem import load_authorities, load_chain, stamps


def loaded(cert: Path, key: Path | None, password: str | None = None) -> None:
    load_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), cert, key, password)


def test_a_certificate_and_its_key_may_share_a_file(tmp_path: Path) -> None:
    files = Authority(tmp_path).certify()
    loaded(*files)
    both = tmp_path / "both.pem"
    both.write_bytes(files.cert.read_bytes() + files.key.read_bytes())
    loaded(both, None)


def test_a_key_with_a_password_needs_it(tmp_path: Path) -> None:
    files = Authority(tmp_path).certify(password="secret")
    loaded(*files, "secret")
    for password, words in ((None, "needs a password"), ("wrong", "the password is wrong")):
        with pytest.raises(SettingsError, match=words) as caught:
            loaded(*files, password)
        assert str(files.key) in str(caught.value) and "secret" not in str(caught.value)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.certify(), authority.certify()
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.write_bytes(b"")
    for cert, key, words in (
        (one.cert, other.key, "it is the key of another certificate"),
        (missing, one.key, f"{missing} cannot be read: No such file"),
        (one.cert, missing, f"{missing} cannot be read: No such file"),
        (empty, one.key, "no certificate or no key in PEM form"),
        (one.cert, empty, "no certificate or no key in PEM form"),
        (one.cert, None, "no certificate or no key in PEM form"),
    ):
        with pytest.raises(SettingsError, match=words):
            loaded(cert, key)


def test_a_file_without_authorities_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), authority.cert)
    empty = tmp_path / "empty.pem"
    empty.write_bytes(b"")
    for path, words in (
        (empty, f"{empty}: no certificate in PEM form"),
        (authority.certify().key, "no certificate in PEM form"),
        (tmp_path / "missing.pem", "cannot be read"),
    ):
        with pytest.raises(SettingsError, match=words):
            load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), path)


def test_a_stamp_changes_with_the_content_and_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cert.pem"
    seen = {stamps(path, None)}
    assert seen == {(None, None)}
    path.write_bytes(b"one")
    seen.add(stamps(path, None))
    path.write_bytes(b"three")
    seen.add(stamps(path, None))
    other = tmp_path / "other.pem"
    other.write_bytes(b"three")
    os.replace(other, path)
    seen.add(stamps(path, None))
    assert len(seen) == 4
    assert stamps(path, None) in seen
