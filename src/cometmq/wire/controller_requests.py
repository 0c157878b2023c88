"""The requests of brokers to RocketMQ's controller; what it asks brokers is in ``wire.requests``.

The permissions are those that the controller checks.
"""

from typing import Final

from cometmq.wire.bodies.controller import SyncStateSet
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import BrokerHeartbeatHeader, BrokerNameHeader, NoFields
from cometmq.wire.headers.controller import (
    AlterSyncStateSetHeader,
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdHeader,
    ControllerMetadataHeader,
    ElectMasterHeader,
    MasterHeader,
    NextBrokerIdHeader,
    NextBrokerIdResponseHeader,
    RegisterAtControllerHeader,
)
from cometmq.wire.requests import Access, Action, Request, Resource

_GET: Final = (Access(Resource.CLUSTER, (Action.GET,)),)
_UPDATE: Final = (Access(Resource.CLUSTER, (Action.UPDATE,)),)

TO_CONTROLLERS: Final = {
    RequestCode.BROKER_HEARTBEAT: Request(BrokerHeartbeatHeader, NoFields, _UPDATE),
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: Request(
        AlterSyncStateSetHeader, AlterSyncStateSetResponseHeader, _UPDATE, SyncStateSet
    ),
    RequestCode.CONTROLLER_ELECT_MASTER: Request(ElectMasterHeader, MasterHeader, _UPDATE),
    RequestCode.CONTROLLER_REGISTER_BROKER: Request(RegisterAtControllerHeader, MasterHeader, _UPDATE),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: Request(BrokerNameHeader, MasterHeader, _GET),
    RequestCode.CONTROLLER_GET_METADATA_INFO: Request(NoFields, ControllerMetadataHeader, _GET),
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: Request(access=_GET),
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: Request(NextBrokerIdHeader, NextBrokerIdResponseHeader, _GET),
    RequestCode.CONTROLLER_APPLY_BROKER_ID: Request(ApplyBrokerIdHeader, NoFields, _UPDATE),
}
"""The requests of brokers to a controller: all but heartbeats and GET_METADATA_INFO go to its leader."""
