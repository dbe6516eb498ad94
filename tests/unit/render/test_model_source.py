"""Forms of a model source."""

import pytest

from mtpilot.api.model import ModelSpec
from mtpilot.render.errors import InvalidArguments
from mtpilot.render.model_source import resolve_source, served_name


@pytest.mark.parametrize(
    ("source", "cached", "path"),
    [
        ("hf://Qwen/Qwen3.6-27B", True, "Qwen/Qwen3.6-27B"),
        ("hf://Qwen/Qwen3.6-27B", False, "Qwen/Qwen3.6-27B"),
        ("/qwen/27b/", True, "/models/qwen/27b"),
        ("/qwen/27b", False, "/qwen/27b"),
        ("s3://bucket/qwen", True, "s3://bucket/qwen"),
        ("qwen/27b", True, "qwen/27b"),
    ],
)
def test_resolution(source: str, cached: bool, path: str) -> None:
    assert resolve_source(source, cached=cached, field="f") == path


@pytest.mark.parametrize("source", ["hf://", "hf://name", "hf://a/b/c", "hf:///b", "/", "/../etc", "hf://../x", "/a/../../b"])
def test_refused(source: str) -> None:
    with pytest.raises(InvalidArguments, match=r"^spec\.model\.source: "):
        resolve_source(source, cached=True, field="spec.model.source")


def test_the_served_name_is_the_last_part_unless_it_is_given() -> None:
    assert served_name(ModelSpec(source="hf://Qwen/Qwen3.6-27B")) == "Qwen3.6-27B"
    assert served_name(ModelSpec(source="/qwen/27b/")) == "27b"
    assert served_name(ModelSpec(source="hf://Qwen/Qwen3.6-27B", served_name="small")) == "small"
