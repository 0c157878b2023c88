"""The requests about users and acls, 3001 to 3010. (RocketMQ: AdminBrokerProcessor.java.)

Who may send them, the guard has checked: they need Update or Get on the cluster. Two rules are here: only a
super user makes or changes a super user, and only a super user is sent the passwords of others. (RocketMQ has
but the first: whoever has Get on its cluster can read the password of a super user, and sign as that.)

A change takes effect at once, and is answered when it is on the disk.
"""

from functools import partial
from typing import Final

from cometmq.access.directory import Directory
from cometmq.access.faults import check_acl, check_user
from cometmq.access.infos import (
    info_of_acl,
    info_of_user,
    member_of,
    policy_type_of,
    user_in,
    user_of,
)
from cometmq.access.policies import Acl, Pattern, PolicyType
from cometmq.access.users import User, UserStatus, UserType
from cometmq.broker.auth.tables import AccessTables
from cometmq.broker.auth_settings import AuthSettings
from cometmq.broker.handlers import Handlers
from cometmq.broker.large_answers import made
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused, code_of
from cometmq.broker.request_body import RequestBodies
from cometmq.errors import AccessError, StoreNotWritable
from cometmq.net.server import Session
from cometmq.wire import headers as h
from cometmq.wire.acl import ACCESS_KEY
from cometmq.wire.bodies.access import AclInfo, UserInfo, encode_list
from cometmq.wire.bodies.body import encode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response

DONE: Final = "not set any response code"
"""The remark of RocketMQ's successful answers to these requests: it forgets to remove its initial one."""
NO_BODY: Final = (
    "org.apache.rocketmq.auth.authorization.exception.AuthorizationException: The body of acl is null"
)
OFF: Final = (
    "authentication is off, so nobody can be trusted with users: set authenticationEnabled=true and "
    "initAuthenticationUser in the broker's settings, then restart it"
)


class AccessRequests:
    """Answers operators' requests about users and acls."""

    def __init__(
        self,
        directory: Directory,
        tables: AccessTables,
        settings: AuthSettings,
        reads: Reads,
        bodies: RequestBodies,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._tables = tables
        self._reads = reads
        self._bodies = bodies

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.user,
            RequestCode.AUTH_LIST_USER: self.users,
            RequestCode.AUTH_CREATE_ACL: self.merge_acl,
            RequestCode.AUTH_UPDATE_ACL: self.merge_acl,
            RequestCode.AUTH_DELETE_ACL: self.delete_acl,
            RequestCode.AUTH_GET_ACL: self.acl,
            RequestCode.AUTH_LIST_ACL: self.acls,
        }

    def create_user(self, session: Session, command: Command, header: h.UserHeader) -> None:
        """AUTH_CREATE_USER; answered once the user is saved."""
        info = self._sent(command, header)
        self._check_super(command, info, "create")
        most = self._settings.users_max
        if self._directory.user_count >= most:
            raise Refused(
                ResponseCode.INVALID_PARAMETER, f"there are {most} users (usersMax): delete those without use"
            )
        self._directory.create(user_of(info))
        self._answer_when_saved(session, command)

    def update_user(self, session: Session, command: Command, header: h.UserHeader) -> None:
        """AUTH_UPDATE_USER: change what is sent and not blank; answered once that is saved."""
        info = self._sent(command, header)
        self._check_super(command, info, "update")
        if self._directory.find(header.username) is None:
            raise AccessError("The user is not exist")
        self._check_target(command, header.username)
        self._directory.update(
            header.username,
            password=info.password or None,
            type=member_of(UserType, info.user_type),
            status=member_of(UserStatus, info.user_status),
        )
        self._answer_when_saved(session, command)

    def delete_user(self, session: Session, command: Command, header: h.UserHeader) -> None:
        """AUTH_DELETE_USER, with its acl; a success, too, if there is no such user."""
        if self._directory.find(header.username) is not None:
            self._check_target(command, header.username)
            self._directory.delete(header.username)
        self._answer_when_saved(session, command)

    def user(self, _session: Session, command: Command, header: h.UserHeader) -> Command:
        """AUTH_GET_USER; without body if there is no such user."""
        _check_name(header)
        found = self._directory.find(header.username)
        return _done(command, b"" if found is None else encode(self._shown(found, self._sender(command))))

    def users(self, session: Session, command: Command, header: h.UserFilterHeader) -> Command | None:
        """AUTH_LIST_USER: those whose name contains a text, sorted."""
        found, sender = self._directory.users(header.filter or ""), self._sender(command)
        reading = made(lambda: encode_list([self._shown(user, sender) for user in found]), len(found))
        return self._reads.answer(session, command, reading, partial(_done, command))

    def merge_acl(self, session: Session, command: Command, header: h.SubjectHeader) -> None:
        """AUTH_CREATE_ACL and AUTH_UPDATE_ACL: add entries, or replace those of the same resources."""
        info = self._bodies.decode(AclInfo, command) if command.body else AclInfo()
        if not info.policies:
            raise Refused(ResponseCode.SYSTEM_ERROR, NO_BODY)
        info.subject = info.subject or header.subject
        acl = check_acl(info)
        self._tables.check_own(acl.user)
        self._check_length(acl)
        self._directory.put_acl(acl)
        self._answer_when_saved(session, command)

    def delete_acl(self, session: Session, command: Command, header: h.DeleteAclHeader) -> None:
        """AUTH_DELETE_ACL: the whole acl, or the entry of one resource."""
        name = user_in(header.subject)
        self._tables.check_own(name)
        resource = None if header.resource is None else Pattern.parse(header.resource)
        self._directory.delete_acl(name, policy_type_of(header.policy_type), resource)
        self._answer_when_saved(session, command)

    def acl(self, _session: Session, command: Command, header: h.SubjectHeader) -> Command:
        """AUTH_GET_ACL; without body if the user has none."""
        name = user_in(header.subject)
        if self._directory.find(name) is None:
            raise AccessError("The subject is not exist.")
        found = self._directory.acl(name)
        return _done(command, b"" if found is None else encode(info_of_acl(found)))

    def acls(self, session: Session, command: Command, header: h.AclFilterHeader) -> Command | None:
        """AUTH_LIST_ACL: of subjects that contain a text, the entries whose resource does; sorted."""
        found = self._directory.acls(header.subject_filter or "", header.resource_filter or "")
        count = sum(len(acl.custom) + len(acl.default) for acl in found)
        reading = made(lambda: encode_list(map(info_of_acl, found)), count)
        return self._reads.answer(session, command, reading, partial(_done, command))

    def _sent(self, command: Command, header: h.UserHeader) -> UserInfo:
        """Return the user of a request. Raises Refused, FormatError, AccessError."""
        _check_name(header)
        info = self._bodies.decode(UserInfo, command)
        check_user(info)
        info.username = header.username
        return info

    def _check_super(self, command: Command, info: UserInfo, what: str) -> None:
        """Check that nobody but a super user makes one. Raises Refused."""
        if member_of(UserType, info.user_type) is UserType.SUPER and self._is_normal(command):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The super user can only be {what} by super user")

    def _check_target(self, command: Command, name: str) -> None:
        """Check that nobody but a super user changes one, and nobody one of a file. Raises AccessError."""
        target = self._directory.find(name)
        if target is not None and target.is_super and self._is_normal(command):
            raise AccessError("The super user can only be update by super user")
        self._tables.check_own(name)

    def _check_length(self, acl: Acl) -> None:
        """Check that a user's acl will not be too long with more entries. Raises Refused."""
        known = self._directory.acl(acl.user) or Acl(acl.user)
        resources = [
            {entry.resource for entry in (*known.entries(kind), *acl.entries(kind))} for kind in PolicyType
        ]
        count, most = sum(map(len, resources)), self._settings.acl_entries_max
        if count > most:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"the acl of User:{acl.user} would have {count} entries, at most {most} are kept "
                "(aclEntriesMax): use prefixes, as in Topic:orders-*",
            )

    def _sender(self, command: Command) -> User | None:
        """Return the user who has signed a request."""
        return self._directory.find(command.ext_fields.get(ACCESS_KEY, ""))

    def _is_normal(self, command: Command) -> bool:
        """Return whether a request is signed, and not by a super user."""
        sender = self._sender(command)
        return bool(command.ext_fields.get(ACCESS_KEY)) and (sender is None or not sender.is_super)

    def _shown(self, user: User, sender: User | None) -> UserInfo:
        """Return a user as the sender of a request may see it."""
        info = info_of_user(user)
        if sender is None or not (sender.is_super or sender.name == user.name):
            info.password = None
        return info

    def _answer_when_saved(self, session: Session, command: Command) -> None:
        """Answer once all changes are on the disk, or with the disk's error."""

        def answer(error: StoreNotWritable | None) -> None:
            if not command.is_oneway:
                session.send(
                    _done(command) if error is None else response(command, code_of(error), str(error))
                )

        self._tables.when_saved(answer)


class NoAccessRequests:
    """Refuses the same requests, for a broker without authentication: anyone could send them."""

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        first, last = RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL
        return {code: self.refuse for code in RequestCode if first <= code <= last}

    def refuse(self, _session: Session, command: Command, _header: h.Header) -> Command:
        """Refuse any of the requests, and name the remedy."""
        return response(command, ResponseCode.NO_PERMISSION, OFF)


def _check_name(header: h.UserHeader) -> None:
    if not header.username:
        raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")


def _done(command: Command, body: bytes = b"") -> Command:
    return response(command, remark=DONE, body=body)
