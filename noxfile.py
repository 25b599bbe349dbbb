"""Run the suite with several Pythons, each with the test libraries that have wheels for it.

`pipx run nox` skips Pythons that are not installed, and `pipx run nox --python 3.14t -- -k stream`
picks one and passes arguments to pytest. Tests of missing libraries are skipped.
"""

import nox

EXTRAS = ("data", "report", "web", "test")


@nox.session(python=["3.11", "3.12", "3.13", "3.14", "3.14t", "3.15"])
def tests(session: nox.Session) -> None:
    """Build the native engine, and test both engines."""
    session.install(".", env={"BPETITE_NATIVE": "require"})
    extras = nox.project.load_toml()["project"]["optional-dependencies"]
    for library in (each for extra in EXTRAS for each in extras[extra]):
        if not library.startswith("bpetite"):
            session.install("--only-binary=:all:", library, success_codes=(0, 1))
    for engine in ("native", "python"):
        session.run("python", "-m", "pytest", *session.posargs, env={"BPETITE_ENGINE": engine})
