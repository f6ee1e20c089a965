"""What the images' build reads is in its context, and its Python steps work on that alone."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

from spark_jobs.dashboards.assets import assets
from tests.programs.compose.without_engine import build, context_files

IMPORT_ALL = """
import sys
from importlib import import_module
from pathlib import Path

here = Path.cwd()
rooms = ("schemas", "spark_jobs")
for path in sorted(path for room in rooms for path in here.glob(f"{room}/**/*.py")):
    if path.stem != "__main__":
        parts = path.relative_to(here).with_suffix("").parts
        import_module(".".join(parts).removesuffix(".__init__"))
ours = [module for name, module in sys.modules.items() if name.split(".")[0] in rooms]
assert [module for module in ours if here not in Path(module.__file__).parents] == []
print(len(ours))
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("context")
    for name in context_files(ROOT):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_images_are_built_of_the_context_alone(context, tmp_path):
    stages = build(ROOT / "infra/docker/Dockerfile", context, tmp_path)
    written = json.loads(stages["superset"].here("assets.json").read_text())
    assert written.keys() == {*assets(), "alerts"}
    assert [*stages["airflow"].here("spark_jobs/machine_code").glob("complete-*")]
    for name in ("spark", "superset"):
        done = subprocess.run(
            [stages["spark"].here(".venv/bin/python"), "-c", IMPORT_ALL],
            cwd=stages[name].here("."), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) >= len([*stages[name].here("spark_jobs").rglob("*.py")]) > 10


def test_zeeks_image_is_built_of_the_context_alone(context, tmp_path):
    (stage,) = build(ROOT / "infra/docker/zeek/Dockerfile", context, tmp_path).values()
    assert stage.here("/usr/local/zeek/share/zeek/site/giscope/bare.zeek").is_file()


def test_make_up_builds_again_when_the_context_changes(context):
    """The files of its sum are those of the context, and the list of what is not in it."""
    script = (ROOT / "infra/up.sh").read_text().replace("\\\n", " ")
    (found,) = re.findall(r"\$\((find .*?) -exec", script)
    shutil.copy(ROOT / ".dockerignore", context)
    summed = subprocess.run(["sh", "-c", found], cwd=context, capture_output=True, text=True)
    assert sorted(summed.stdout.split()) == sorted([".dockerignore", *context_files(ROOT)])


@pytest.fixture
def checkout(tmp_path) -> Path:
    names = ("a.md", "docs/a.md", "docs/b/a.md", "code/a.py", "code/x/a.py", "code/x/a.md")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("rules", "files"),
    [
        ("*\n!code", "code/a.py code/x/a.md code/x/a.py"),
        ("*\n!code\n**/a.md", "code/a.py code/x/a.py"),
        ("docs\n!docs/b\ncode/*\n# code", ".dockerignore a.md docs/b/a.md"),
        ("*\n!docs/a.md", "docs/a.md"),
        ("a.md\ncode/x", ".dockerignore code/a.py docs/a.md docs/b/a.md"),
    ],
)
def test_the_last_rule_that_matches_decides(checkout, rules, files):
    (checkout / ".dockerignore").write_text(rules + "\n")
    assert context_files(checkout) == files.split()


@pytest.mark.parametrize("rule", ["a?", "[ab]", "/a", "a/**", "!../a/", "a*"])
def test_other_rules_are_refused(checkout, rule):
    (checkout / ".dockerignore").write_text(f"*\n{rule}\n")
    with pytest.raises(ValueError, match="such rules are not implemented"):
        context_files(checkout)
