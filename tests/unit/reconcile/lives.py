"""Services in the small world, and what is asked of them again and again."""

from functools import cache
from typing import Any

from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.api.status import Condition, ConditionType
from tests.world import World


def settled(world: World | None = None, **changes: Any) -> World:
    """A world whose replicas all serve: the usual one, or `world`; `changes` are its attributes from then on."""
    if world is None:
        world = _usual().copy()
    else:
        _settle(world)
    for name, value in changes.items():
        setattr(world, name, value)
    return world


def _settle(world: World) -> World:
    world.run(60)
    assert world.serving() == world.spec.replicas
    return world


@cache
def _usual() -> World:
    return _settle(World())


def condition(world: World, kind: ConditionType) -> Condition:
    return next(item for item in world.status.conditions if item.type is kind)


def replace_image(world: World, image: str) -> InferenceServiceSpec:
    world.generation += 1
    return world.spec.model_copy(update={"engine": world.spec.engine.model_copy(update={"image": image})})


def images(world: World) -> set[str]:
    return {deployment.manifest["spec"]["template"]["spec"]["containers"][0]["image"] for deployment in world.deployments.values()}
