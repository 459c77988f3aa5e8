"""Names of parts: found, registered, imported from elsewhere, or refused with a sentence that helps."""

import sys
from dataclasses import dataclass
from types import ModuleType

import pytest

from abps import registry
from abps.errors import ConfigError
from abps.registry import BASES, KINDS, find, is_known, kind_of, nearest, register
from abps.steps.base import Move, StepRule
from abps.steps.walk import Walk

PARTS = [(family, kind) for family, kinds in KINDS.items() for kind in kinds]


@dataclass(frozen=True)
class Stay(StepRule):
    """Never moves."""

    def __call__(self, given):
        return Move(given.model.neighbourhood.theta)


class Unfinished(StepRule):
    """Has no step."""


@pytest.fixture(autouse=True)
def unchanged(monkeypatch):
    """Registrations of a test do not outlive it."""
    monkeypatch.setattr(registry, "KINDS", {family: dict(kinds) for family, kinds in KINDS.items()})


@pytest.fixture
def outside(monkeypatch) -> ModuleType:
    module = ModuleType("somebodys_steps")
    vars(module).update(Stay=type("Stay", (Stay,), {"__module__": "somebodys_steps"}), number=3)
    monkeypatch.setitem(sys.modules, "somebodys_steps", module)
    return module


@pytest.mark.parametrize(("family", "kind"), PARTS)
def test_every_name_leads_to_a_part_of_its_family_and_back(family, kind):
    part = find(family, kind)
    assert part.family == family
    assert kind_of(part) == kind
    assert is_known(family, kind)
    assert part.__doc__
    assert set(KINDS) == set(BASES)


def test_old_names_still_lead_somewhere():
    assert find("policy", "direct") is find("policy", "clipped-linear")
    assert is_known("policy", "direct")
    assert kind_of(find("policy", "direct")) == "clipped-linear"


def test_a_part_from_elsewhere_needs_no_registration(outside):
    assert find("step", "somebodys_steps:Stay") is outside.Stay
    assert kind_of(outside.Stay) == "somebodys_steps:Stay"
    assert not is_known("step", "somebodys_steps:Stay")


def test_a_registered_part_has_a_short_name_and_files_still_say_where_it_lives(outside):
    assert register(outside.Stay, "stay") is outside.Stay
    assert register(outside.Stay, "stay") is outside.Stay  # Twice is once.
    assert find("step", "stay") is outside.Stay
    assert kind_of(outside.Stay) == "somebodys_steps:Stay"
    assert is_known("step", "somebodys_steps:Stay")


def test_a_class_that_no_file_could_name_keeps_its_registered_name():
    @dataclass(frozen=True)
    class Local(Stay):
        """Made inside a function."""

    register(Local, "local-stay")
    assert kind_of(Local) == "local-stay"


@pytest.mark.parametrize(
    ("family", "kind", "sentence"),
    [
        ("step", "wlak", "unknown step 'wlak'; did you mean 'walk'?"),
        ("step", "zzz", "unknown step 'zzz'; known: walk, "),
        ("step", 3, "the kind of a step is a name, got 3"),
        ("step", "abps.model.kernel:Matern52", "is a kernel, not a step; a step derives from abps.steps.base.StepRule"),
        ("step", "abps.errors:ConfigError", "is no part, not a step"),
        ("step", "somebodys_steps:number", "is no step but a int"),
        ("step", "somebodys_steps:Saty", "module 'somebodys_steps' has no 'Saty'; did you mean 'Stay'?"),
        ("step", "no_such_module_here:Stay", "there is no module 'no_such_module_here' here"),
        ("step", "abps.steps.base:StepRule", "lacks __call__"),
        ("step", ":Stay", "is not of the form module:Name"),
    ],
)
def test_what_is_no_part_is_refused_with_a_sentence(family, kind, sentence, outside):
    with pytest.raises(ConfigError) as refusal:
        find(family, kind)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("part", "kind", "sentence"),
    [
        (int, "int", "belongs to no family of parts; derive it from one of"),
        (Unfinished, "unfinished", "lacks __call__"),
        (Stay, "walk", "the step 'walk' is registered already; choose another name"),
    ],
)
def test_what_cannot_be_registered_is_refused_with_a_sentence(part, kind, sentence):
    with pytest.raises(ConfigError) as refusal:
        register(part, kind)
    assert sentence in str(refusal.value)
    assert find("step", "walk") is Walk


def test_a_module_that_fails_when_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_part.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="cannot import 'broken_part:X': ZeroDivisionError"):
        find("step", "broken_part:X")


def test_nearest():
    assert nearest("probs", ["probes", "step"]) == "; did you mean 'probes'?"
    assert nearest("zzz", ["probes", "step"]) == "; known: probes, step"
