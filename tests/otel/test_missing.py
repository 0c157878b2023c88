"""Without OpenTelemetry."""

from tests.kit.programs import TRY_ALL, without

STATEMENT = "from cometmq.otel import ProcessSpans"


def test_the_error_names_the_extra() -> None:
    found = without({"opentelemetry"}, TRY_ALL, [STATEMENT])
    remedy = "cometmq.otel needs opentelemetry: pip install 'cometmq[otel]'"
    assert found == {STATEMENT: ["MissingExtra", remedy]}
