"""The images that the operator is told reach every gateway, and no engine."""

from dataclasses import replace

from mtpilot.model.snapshot import GatewayImages
from mtpilot.reconcile.templates import RenderedTemplates
from tests.unit.render.samples import SAMPLES


def test_a_gateway_runs_the_images_that_the_operator_was_told() -> None:
    sample = SAMPLES[0]
    templates = RenderedTemplates(sample.service, sample.hardware)
    told = GatewayImages(haproxy="mirror.example/haproxy:2.8", agent="mirror.example/mtpilot:0.1.0")
    for images in (told, replace(told, agent="mirror.example/mtpilot:0.1.1")):
        children = [found for found in templates.children(images=images) if isinstance(found, dict) and found["kind"] == "Deployment"]
        containers = children[0]["spec"]["template"]["spec"]["containers"]
        assert {found["name"]: found["image"] for found in containers} == {"haproxy": images.haproxy, "agent": images.agent}
