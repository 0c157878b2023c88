from cometmq.access.users import User, UserStatus, UserType


def test_a_password_is_in_no_text_of_a_user() -> None:
    user = User("ann", "s3cret")
    assert "s3cret" not in repr(user)
    assert "s3cret" not in str(dict(user.__rich_repr__()))


def test_a_user_is_normal_and_enabled_unless_told_otherwise() -> None:
    assert not User("ann", "x").is_super
    assert User("ann", "x").is_enabled
    assert User("ann", "x", UserType.SUPER).is_super
    assert not User("ann", "x", status=UserStatus.DISABLE).is_enabled
