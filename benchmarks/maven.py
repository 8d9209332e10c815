"""A Maven project of ours (a `pom.xml`, perhaps `src/`) to a class path. The tests use it too."""

import os
import shutil
import subprocess
from pathlib import Path


def class_path(project: Path) -> str:
    """Resolve and compile a project; only a change of its pom or sources runs Maven again."""
    listed = project / "target" / "classpath.txt"
    if not listed.exists() or listed.stat().st_mtime < _last_change(project):
        _build(project, listed)
    return os.pathsep.join([str(project / "target" / "classes"), listed.read_text().strip()])


def java(main_class: str, class_path: str, *options: str) -> list[str]:
    """The command that starts a program; its arguments follow."""
    return ["java", *options, "-cp", class_path, main_class]


def _last_change(project: Path) -> float:
    sources = [project / "pom.xml", *project.glob("src/**/*.java")]
    return max(source.stat().st_mtime for source in sources)


def _build(project: Path, listed: Path) -> None:
    if shutil.which("mvn") is None:
        raise SystemExit("Maven is missing: install it (Debian: apt install maven), then try again")
    goals = ["compile"] if (project / "src").exists() else []
    goals += ["dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
    # The local repository first: a second run needs no network.
    for offline in (["--offline"], []):
        run = subprocess.run(
            ["mvn", "-q", "-B", *offline, *goals], cwd=project, capture_output=True, text=True
        )
        if run.returncode == 0:
            return
    listed.unlink(missing_ok=True)
    raise SystemExit(f"Maven failed in {project}:\n{run.stdout}{run.stderr}")
