"""Accounts of RocketMQ's plain ACL, and the users that mqadmin makes."""

from pathlib import Path

from cometmq.access.directory import Directory


def put(home: Path, text: str, name: str = "plain_acl.yml") -> Path:
    """Write a file of accounts, so that it differs from the one before it."""
    path = home / "conf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def account(name: str, *lines: str, secret: str = "12345678") -> str:
    return "\n".join([f"- accessKey: {name}", f"  secretKey: {secret}", *(f"  {line}" for line in lines), ""])


def users_of(directory: Directory) -> list[str]:
    return [user.name for user in directory.users()]


SAMPLE = """\
# Licensed to the Apache Software Foundation (ASF) under one or more

globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.{1,2}   # two of them

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      # the group should convert to retry topic
    groupPerms:
    - groupA=DENY

  - accessKey: rocketmq2
    secretKey: "a # b: \\"c\\""
    whiteRemoteAddress: '*'
    # if it is admin, it could access all resources
    admin: true
"""


AUTH = "org.apache.rocketmq.auth"
SETTINGS: dict[str, object] = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"admin","password":"12345678"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"87654321"}',
}
OF_JAVA: dict[str, object] = {
    "authenticationProvider": f"{AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": f"{AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}
