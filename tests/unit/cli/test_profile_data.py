"""The committed profiles are what the command makes of their points."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.profiles import ROOT, Recipe, recipes, write
from mtpilot.cli.profile_files import read_profiles
from mtpilot.curves.of_profile import context_buckets, curve_pair, fit_in_force


def rough(value: Any) -> Any:
    """Numbers that a fit ends at differ in the last digits between machines; all else must be equal."""
    if isinstance(value, dict):
        return {key: rough(child) for key, child in value.items() if key not in ("parameters", "crossover", "message")}
    return [rough(child) for child in value] if isinstance(value, list) else value


@pytest.mark.parametrize("recipe", list(recipes()), ids=lambda recipe: Path(recipe.file).stem)
def test_a_committed_profile_is_up_to_date(recipe: Recipe, tmp_path: Path) -> None:
    committed, fresh = ROOT / recipe.file, write(recipe, tmp_path)
    assert rough(yaml.safe_load(committed.read_text())) == rough(yaml.safe_load(fresh.read_text()))
    (mine,), (theirs,) = read_profiles(committed), read_profiles(fresh)
    assert fit_in_force(mine.spec) is not None
    for context in context_buckets(mine.spec):
        (here, _), (there, _) = curve_pair(mine.spec, context), curve_pair(theirs.spec, context)
        assert here.mtp.tokens_per_second == pytest.approx(there.mtp.tokens_per_second, rel=1e-3)
        assert here.batch.tokens_per_second == pytest.approx(there.batch.tokens_per_second, rel=1e-3)


def test_every_committed_profile_has_a_recipe() -> None:
    known = {Path(recipe.file).name for recipe in recipes()}
    assert {path.name for path in (ROOT / "e2e" / "data" / "profiles").glob("*.yaml")} <= known
