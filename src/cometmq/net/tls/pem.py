"""Load certificates and keys from PEM files into TLS contexts, with errors that name the file.

The standard library's own errors do not say which of several files cannot be used, and OpenSSL would ask for
a missing password at the terminal.
"""

import os
import ssl
from pathlib import Path
from typing import NamedTuple, TypeAlias

from cometmq.errors import SettingsError

PemPath: TypeAlias = str | Path


class FileStamp(NamedTuple):
    """What changes when a file is replaced or written.

    Attributes:
        modified_ns: time of the last change of its content, ns since the epoch.
        size: in bytes.
    """

    inode: int
    modified_ns: int
    size: int


Stamps: TypeAlias = tuple[FileStamp | None, ...]


def stamps(*paths: PemPath | None) -> Stamps:
    """Return the stamp of each file; None for one that cannot be found."""
    return tuple(_stamp(path) if path else None for path in paths)


def load_chain(
    context: ssl.SSLContext, cert_path: PemPath, key_path: PemPath | None, password: str | None
) -> None:
    """Load a certificate with those that sign it, and its key, from its own file or that of the certificate.

    Raises SettingsError: a file cannot be read or holds no such thing, or the key is not the certificate's.
    """
    for path in (cert_path, key_path or cert_path):
        _check_readable(path)
    try:
        context.load_cert_chain(cert_path, key_path or None, password=lambda: password or "")
    except ssl.SSLError as error:
        if openssl_reason(error) == "KEY_VALUES_MISMATCH":
            trouble = "it is the key of another certificate"
        elif password:
            trouble = "no certificate or no key in PEM form, or the password is wrong"
        else:
            trouble = "no certificate or no key in PEM form, or the key needs a password"
        where = f"certificate {cert_path}, key {key_path or cert_path}"
        raise SettingsError(f"{where}: {trouble} ({reason_of(error)})") from None


def load_authorities(context: ssl.SSLContext, path: PemPath) -> None:
    """Load the certificates of trusted authorities. Raises SettingsError if the file has none."""
    _check_readable(path)
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise SettingsError(f"{path}: no certificate in PEM form ({reason_of(error)})") from None
    if not context.cert_store_stats()["x509"]:
        raise SettingsError(f"{path}: no certificate in PEM form")


def openssl_reason(error: ssl.SSLError) -> str:
    """Return the name of OpenSSL's reason; empty for an error of Python's own, which has none."""
    return getattr(error, "reason", None) or ""


def reason_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in small letters, without the place in its source."""
    return (openssl_reason(error) or str(error.args[-1])).lower().replace("_", " ").rstrip(".")


def _stamp(path: PemPath) -> FileStamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileStamp(found.st_ino, found.st_mtime_ns, found.st_size)


def _check_readable(path: PemPath) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
