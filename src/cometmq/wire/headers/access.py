"""Headers of the requests about users and their access control lists (acls).

Brokers refuse a request without the name of a user or subject with a text of their own.

RocketMQ: ``CreateUserRequestHeader.java``, ``DeleteAclRequestHeader.java`` and their neighbours.
"""

from cometmq.wire.headers.fields import Header


class UserHeader(Header):
    """The name of a user: AUTH_CREATE_USER, AUTH_UPDATE_USER, AUTH_DELETE_USER, AUTH_GET_USER."""

    username: str = ""


class UserFilterHeader(Header):
    """AUTH_LIST_USER: all users, or those whose name contains ``filter``."""

    filter: str | None = None


class SubjectHeader(Header):
    """A subject, ``User:name``: AUTH_CREATE_ACL, AUTH_UPDATE_ACL, AUTH_GET_ACL."""

    subject: str = ""


class DeleteAclHeader(Header):
    """AUTH_DELETE_ACL: a whole acl, or the entry of one resource.

    Attributes:
        policy_type: the policy of the entry: ``Custom``, as without it, or ``Default``.
        resource: the resource of the entry; None for the whole acl.
    """

    subject: str = ""
    policy_type: str | None = None
    resource: str | None = None


class AclFilterHeader(Header):
    """AUTH_LIST_ACL: all acls, or what is left of them by the filters.

    Attributes:
        subject_filter: a part of the subject.
        resource_filter: a part of the resource; other entries are left out.
    """

    subject_filter: str | None = None
    resource_filter: str | None = None
