"""The dashboard's queries as they are asked without Grafana."""

from __future__ import annotations

from pathlib import Path

from e2e.chart_dashboard import Answer, _series, _with_gaps, load, queries, save


def test_every_variable_of_every_query_is_replaced() -> None:
    asked = list(queries({"namespace": "a", "service": "chat", "__rate_interval": "5s"}))
    assert len(asked) > 20
    assert [query for _, query, _ in asked if "$" in query] == []


def test_a_series_of_nothing_but_nan_is_none() -> None:
    result = [
        {"metric": {"mode": "mtp"}, "values": [[1, "NaN"], [2, "3"]]},
        {"metric": {"mode": "batch"}, "values": [[1, "NaN"]]},
    ]
    assert _series(result, "running, {{mode}}") == {"running, mtp": [(2.0, 3.0)]}


def test_a_line_stops_where_samples_are_missing(tmp_path: Path) -> None:
    points = [(1.0, 5.0), (2.0, 5.0), (9.0, 6.0)]
    drawn = _with_gaps(points, 1.0)
    assert [at for at, _ in drawn] == [1.0, 2.0, 2.0, 9.0]
    assert drawn[2][1] != drawn[2][1]
    answers = [Answer(panel="p", query="q", series={"a": points})]
    save(answers, tmp_path / "x.json")
    assert [answer.panel for answer in load(tmp_path / "x.json")] == ["p"]
