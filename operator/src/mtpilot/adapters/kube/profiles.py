"""ThroughputProfiles of a namespace as the core sees them.

They change seldom and are read at every look, so they come from the API server's watch cache and each generation is parsed once.
"""

from dataclasses import dataclass, field

from pydantic import ValidationError

from mtpilot.api.throughput_profile import ProfileCondition, ThroughputProfileSpec, ThroughputProfileStatus
from mtpilot.model.snapshot import Manifest, Profile

from .client import KubeClient
from .fields import metadata_of
from .paths import THROUGHPUT_PROFILE

Mark = tuple[str, int]  # uid, generation


def profile_mark(obj: Manifest) -> Mark:
    """What tells one state of a profile's spec from every other."""
    metadata = metadata_of(obj)
    return str(metadata["uid"]), int(metadata.get("generation") or 0)


def profile_from_object(obj: Manifest) -> Profile:
    """The profile as read. One that does not fit the models (an older CRD is installed) stays visible with its problem."""
    metadata = metadata_of(obj)
    name, generation = metadata["name"], int(metadata.get("generation") or 0)
    owner = next((str(found.get("uid")) for found in metadata.get("ownerReferences") or () if found.get("controller")), None)
    try:
        spec = ThroughputProfileSpec.model_validate(obj.get("spec") or {})
        return Profile(name=name, generation=generation, spec=spec, owner_uid=owner)
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"spec.{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return Profile(name=name, generation=generation, spec=None, problem=problem, owner_uid=owner)


def conditions_of(obj: Manifest) -> tuple[ProfileCondition, ...]:
    """The conditions that the profile has; what an older version wrote and this one cannot read is written anew."""
    try:
        return ThroughputProfileStatus.model_validate({"conditions": (obj.get("status") or {}).get("conditions") or ()}).conditions
    except ValidationError:
        return ()


@dataclass(slots=True)
class ProfileReader:
    """Profiles by namespace, shared by all its services."""

    client: KubeClient
    _parsed: dict[str, dict[Mark, Profile]] = field(default_factory=dict)

    async def of_namespace(self, namespace: str) -> tuple[Profile, ...]:
        """All profiles of the namespace, by name. Raises ClusterError."""
        objects = await self.client.list_all(*THROUGHPUT_PROFILE, namespace=namespace, cached=True)
        known = self._parsed.get(namespace, {})
        found: dict[Mark, Profile] = {}
        for obj in objects:
            mark = profile_mark(obj)
            found[mark] = known.get(mark) or profile_from_object(obj)
        self._parsed[namespace] = found
        return tuple(sorted(found.values(), key=lambda profile: profile.name))
