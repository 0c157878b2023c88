"""The JSON bodies of commands: :func:`encode` and :func:`decode` convert the types of the modules below.

Each of these types is a name of this package. Messages travel as records (:mod:`cometmq.format.record`) or as
plain bodies; batches of them in :mod:`cometmq.wire.batch`; registrations have a compressed form in
:mod:`cometmq.wire.bodies.registration`; settings are lines of text in :mod:`cometmq.wire.settings_text`.
"""

from cometmq.wire.bodies.access import *
from cometmq.wire.bodies.body import *
from cometmq.wire.bodies.controller import *
from cometmq.wire.bodies.filters import *
from cometmq.wire.bodies.group import *
from cometmq.wire.bodies.heartbeat import *
from cometmq.wire.bodies.locks import *
from cometmq.wire.bodies.pop import *
from cometmq.wire.bodies.registration import Registration as Registration  # its encode is not this package's
from cometmq.wire.bodies.route import *
from cometmq.wire.bodies.running import *
from cometmq.wire.bodies.stats import *
from cometmq.wire.bodies.topic import *
