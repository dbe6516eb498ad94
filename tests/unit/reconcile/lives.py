"""Services in the small world, and what is asked of them again and again."""

from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.api.status import Condition, ConditionType
from tests.world import World


def settled(world: World | None = None) -> World:
    world = world or World()
    world.run(60)
    assert world.serving() == world.spec.replicas
    return world


def condition(world: World, kind: ConditionType) -> Condition:
    return next(item for item in world.status.conditions if item.type is kind)


def replace_image(world: World, image: str) -> InferenceServiceSpec:
    world.generation += 1
    return world.spec.model_copy(update={"engine": world.spec.engine.model_copy(update={"image": image})})


def images(world: World) -> set[str]:
    return {deployment.manifest["spec"]["template"]["spec"]["containers"][0]["image"] for deployment in world.deployments.values()}
