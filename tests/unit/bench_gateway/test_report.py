"""The report can be made from a run, and says first whether the goals were met."""

from e2e.bench_gateway.plots import NAMES
from e2e.bench_gateway.report import render
from e2e.bench_gateway.run import ROWS
from e2e.bench_gateway.summary import details, summarise


def test_the_report_names_every_contender_its_way_out_and_what_was_missed(outcome):
    page = render(outcome, summarise(outcome), details(outcome), ["a goal <missed>"], ["a warning"])
    assert all(NAMES[name].replace("\n", " ") in page for name in ROWS)
    assert page.count("by hand") == len(ROWS)
    assert "a goal &lt;missed&gt;" in page
    assert "a warning" in page
    assert page.count("data:image/png;base64,") == 3
