"""The report is one file with its plots inside, and what it shows comes from the outcome."""

import base64
import io
import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from e2e.demo import figures, plots
from e2e.demo.report import render
from e2e.demo.shaping import read_trace
from e2e.demo.summary import ALWAYS_BATCH, ALWAYS_MTP, AUTO, READING, summarise
from mtpilot.drawing import MODE_COLOURS
from tests.unit.e2e_demo.conftest import recorded

_IMAGE = re.compile(r'src="data:image/png;base64,([A-Za-z0-9+/=]+)"')
ORDER = ("comparison", "auto", "throughput")


def drawn(png: bytes) -> tuple[tuple[int, int], int]:
    """Size, and how many colours stand in the picture."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    red, green, blue = np.moveaxis(np.asarray(image)[::3, ::3].astype(int), 2, 0)
    return image.size, len(np.unique(red << 16 | green << 8 | blue))


@pytest.fixture(scope="module")
def page(schedule) -> str:
    outcome = recorded(schedule)
    return render(outcome, summarise(outcome), schedule, read_trace())


def test_three_plots_are_embedded_and_not_empty(page):
    images = [base64.b64decode(data) for data in _IMAGE.findall(page)]
    assert len(images) == len(ORDER)
    for image in images:
        (width, height), colours = drawn(image)
        assert width >= 1000
        assert height >= 300
        assert colours > 50


def test_nothing_is_loaded_from_elsewhere(page):
    assert "http://" not in page.replace("http://127.1.0.1:8080", "")
    assert "<script" not in page
    assert "<link" not in page


def test_the_table_has_each_policy_and_its_figures(page):
    for name in ("auto", "always mtp", "always batch"):
        assert f"<td>{name}</td>" in page
    assert "<td>4.00</td>" in page
    assert "Passed." in page
    assert READING in page  # what is compared says at once why the fixed modes look better


def test_texts_of_the_operator_are_escaped(page):
    assert "demand &lt;b&gt;above&lt;/b&gt; the cap" in page
    assert "demand &lt;i&gt;above&lt;/i&gt;" in page


def test_a_failed_run_without_baselines(outcome, schedule, monkeypatch):
    monkeypatch.setattr(plots, "png", lambda figure: b"composed, not drawn: that takes a second")
    outcome.timeline.flips.clear()
    for name in (ALWAYS_MTP, ALWAYS_BATCH):
        del outcome.results[name]
    page = render(outcome, summarise(outcome), schedule, read_trace())
    assert "Failed." in page
    assert "no replica was flipped from mtp to batch" in page
    assert "Passed." not in page
    assert "<td>auto</td>" in page
    assert "<td>always mtp</td>" not in page


def test_modes_are_drawn_in_their_colours(page):
    png = base64.b64decode(_IMAGE.findall(page)[ORDER.index("auto")])
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    for mode in MODE_COLOURS.values():
        blended = [round(0.85 * int(mode[at : at + 2], 16) + 0.15 * 255) for at in (1, 3, 5)]
        assert (np.abs(pixels - blended).max(axis=2) <= 2).sum() > 1000


def test_tokens_asked_for_and_received_are_those_of_the_requests(outcome, schedule):
    wanted = figures.offered(schedule, smooth_bins=1)
    got = figures.delivered(outcome.results[AUTO].records, 1000.0, smooth_bins=1)
    assert float(wanted.values.sum() * 0.5) == pytest.approx(schedule.output_tokens)
    assert float(got.values.sum() * 0.5) == pytest.approx(schedule.output_tokens, rel=1e-6)


def test_requests_in_flight_and_waiting(outcome, schedule):
    all_open, waiting = figures.in_flight(outcome.results[AUTO].records, 1000.0)
    at = 30.0
    index = int(np.argmin(np.abs(all_open.seconds - at)))
    assert all_open.values[index] == sum(request.at_seconds <= at < request.at_seconds + 2.0 for request in schedule.requests)
    assert waiting.values[index] == sum(request.at_seconds <= at < request.at_seconds + 0.5 for request in schedule.requests)
    assert all_open.values[-1] <= 1


def test_the_mix_begins_with_what_was_there_before(outcome):
    window = outcome.timeline.window(AUTO)
    mix = figures.mix(outcome.timeline, window)
    assert mix.seconds[0] == 0
    assert (mix.mtp[0], mix.batch[0]) == (4, 0)
    assert mix.seconds[-1] == 90
    assert mix.draining.max() == 1


def test_every_area_of_the_mix_is_in_its_legend(schedule, monkeypatch):
    made: list[Figure] = []
    monkeypatch.setattr(plots, "png", made.append)
    plots.auto_run(recorded(schedule), schedule)
    legend = made[0].axes[1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["mtp", "batch", "draining", "loading", "no pod"]
