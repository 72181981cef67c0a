"""Fixtures: stores in temporary folders."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import tract_context as tract


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'agent.db'}"


@pytest.fixture(params=["memory", "sqlite", "redb"])
def t(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tract.Tract]:
    place = "" if request.param == "memory" else str(tmp_path / "store")
    with tract.open(f"{request.param}:{place}") as handle:
        yield handle
