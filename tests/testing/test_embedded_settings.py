from cometmq import Credentials
from cometmq.testing.embedded_settings import STORE, broker_settings, user_settings


def test_a_broker_with_a_user_checks_each_request_and_shows_no_secret() -> None:
    credentials = Credentials('a"b', "the 'secret'")
    settings = broker_settings("127.0.0.1", 0, "127.0.0.1:9876", user_settings(credentials))
    assert settings.auth.authentication_enabled and settings.auth.authorization_enabled
    assert settings.auth.initial_user == credentials
    assert "the 'secret'" not in repr(settings)


def test_a_broker_without_users_asks_for_no_signature() -> None:
    settings = broker_settings("127.0.0.1", 0, "127.0.0.1:9876", {})
    assert not settings.auth.authentication_enabled and settings.auth.initial_user is None


def test_the_largest_message_fits_into_a_file() -> None:
    assert STORE.mapped_file_size_commit_log > 2 * STORE.max_message_size
