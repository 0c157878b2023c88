"""Settings and credentials of a broker with authentication on, for tests of what operators do."""

from typing import Any, Final

from cometmq.wire.acl import Credentials

ADMIN: Final = Credentials("admin", "secret-of-admin")
SECURED: Final[dict[str, Any]] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": f'{{"username":"{ADMIN.access_key}","password":"{ADMIN.secret_key}"}}',
}
"""Settings by their names in code: the first user is ``ADMIN``, who may do everything."""
