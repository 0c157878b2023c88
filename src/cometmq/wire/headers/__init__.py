"""The header fields of each command's request and response.

Every type of the modules below is a name of this package. ``wire.requests`` is the table that lists which
request has which. :func:`parse` converts a command's ``ext_fields`` to one of these types, :func:`fields`
converts it back.
"""

from cometmq.wire.headers.access import *
from cometmq.wire.headers.admin import *
from cometmq.wire.headers.client import *
from cometmq.wire.headers.controller import *
from cometmq.wire.headers.fields import *
from cometmq.wire.headers.message import *
from cometmq.wire.headers.namesrv import *
from cometmq.wire.headers.offset import *
from cometmq.wire.headers.pop import *
