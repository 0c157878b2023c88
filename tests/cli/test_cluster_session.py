import asyncio

import pytest
from tests.live import Live

from cometmq.admin.topics import TopicAdmin
from cometmq.cli.cluster_session import explain_no_route, run_in_cluster
from cometmq.errors import NoRoute


def test_what_is_asked_for_comes_back(live: Live) -> None:
    assert "TBW102" in run_in_cluster(live.name_server, TopicAdmin.topics)


def test_a_topic_that_is_not_there_teaches_what_there_is(live: Live) -> None:
    with pytest.raises(NoRoute, match=r"nearest 'TBW102'; create it with: cometmq topic create TBW10$"):
        run_in_cluster(live.name_server, lambda admin: admin.route("TBW10"))


def test_what_is_no_matter_of_a_topic_stays_as_it_is(live: Live) -> None:
    error = NoRoute("no broker")
    assert asyncio.run(explain_no_route(live.name_server, error)) is error
