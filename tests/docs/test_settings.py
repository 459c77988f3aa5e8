"""docs/settings.md is what the code says."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_settings", DOCS / "generate_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(generator: ModuleType) -> None:
    assert (DOCS / "settings.md").read_text() == generator.page(), "run `make docs`"


def test_the_page_names_every_setting(generator: ModuleType) -> None:
    import dataclasses

    page = generator.page()
    for _, cls in generator.SECTIONS:
        for field in dataclasses.fields(cls):
            assert f"`{field.name}" in page
