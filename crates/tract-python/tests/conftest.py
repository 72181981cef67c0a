"""Fixtures: stores in temporary folders and on a PostgreSQL server, and the vendors' test suites."""

import os
import shutil
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Iterator
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


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def adapted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tract.Tract]:
    """A store for an adapter."""
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        handle = tract.open(server, repo=f"test-{uuid.uuid4()}")
    else:
        handle = tract.open("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'agent.db'}")
    with handle:
        yield handle


def missing(what: str) -> None:
    """Skip a test on a contributor's machine, and fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a database: `TRACT_POSTGRES_URL`, else one on a server that ends with the tests."""
    given = os.environ.get("TRACT_POSTGRES_URL")
    if given and given != "none":
        yield given
        return
    folders = [Path(found).parent for found in [shutil.which("initdb")] if found]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    programs = next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)
    if given == "none" or programs is None:
        missing("PostgreSQL is not installed, and TRACT_POSTGRES_URL is not set")
        return
    work = Path(tempfile.mkdtemp(prefix="tract-pg-"))
    # PostgreSQL refuses to run as root.
    user: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(work, "postgres")
        user = [
            shutil.which("setpriv", path=os.defpath) or "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
        ]

    def run(program: str, *arguments: str) -> None:
        command = [*user, str(programs / program), *arguments]
        subprocess.run(command, check=True, cwd=work, stdout=subprocess.DEVNULL)

    try:
        data = str(work / "data")
        run("initdb", "-D", data, "-U", "tract", "--auth=trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={work}"
        run("pg_ctl", "-D", data, "-w", "-l", str(work / "log"), "-o", options, "start")
        try:
            yield f"postgres://tract@/postgres?host={work}"
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def suite_store(request: pytest.FixtureRequest) -> str:
    """The store on which a vendor's suite runs."""
    server: str = request.getfixturevalue("postgres") if request.param == "postgres" else request.param
    return server


@pytest.fixture
def sdist(tmp_path: Path) -> Callable[[str], Path]:
    """Unpack the source distribution of a package from the folder `TRACT_SDISTS`."""

    def unpack(name: str) -> Path:
        folder = os.environ.get("TRACT_SDISTS")
        archive = Path(folder or ".") / f"{name}.tar.gz"
        if folder is None or not archive.exists():
            missing(f"{archive} is missing: see requirements.txt")
        with tarfile.open(archive) as file:
            file.extractall(tmp_path, filter="data")
        return tmp_path / name

    return unpack
