"""`build.mode = "source"`: what an overlay refuses is compiled in the image, from the source that the image holds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.image.record import BuiltImage
from tests.image.bench import COPIES, Images, stack_bench
from tests.stack.bench import Bench, lock, refusal

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker-images")]

EXTENSION = """\
/* A module of CPython, declared by hand: the image has a compiler, and no headers. */
typedef struct { long count; void *type, *init; long index; void *copy; const char *name, *doc; long size;
                 void *methods, *slots, *traverse, *clear, *free; } Module;
typedef struct { const char *name; void *function; int flags; const char *doc; } Method;
void *PyLong_FromLong(long);
void *PyModule_Create2(Module *, int);
static void *answer(void *self, void *none) { return PyLong_FromLong(ANSWER); }
static Method methods[] = {{"answer", answer, 4, 0}, {0, 0, 0, 0}};
static Module module = {1, 0, 0, 0, 0, "_answer", 0, -1, methods, 0, 0, 0, 0};
void *PyInit__answer(void) { return PyModule_Create2(&module, 1013); }
"""
SETUP = """\
import pathlib, shutil, subprocess

print("compiling", flush=True)
pathlib.Path("build").mkdir(exist_ok=True)
subprocess.run(["tcc", "-shared", "-nostdlib", "-o", "build/_answer.so", "csrc/answer.c"], check=True)
networks = sorted(path.name for path in pathlib.Path("/sys/class/net").iterdir())
pathlib.Path("vllm/_generated.py").write_text(f"networks = {networks!r}\\n")
for copy in ("/opt/vllm", "/venv/site-packages"):
    target = pathlib.Path(copy, "vllm")
    target.mkdir(parents=True, exist_ok=True)
    for path in [pathlib.Path("build/_answer.so"), *pathlib.Path("vllm").glob("*.py")]:
        if path.resolve() != (target / path.name).resolve():
            shutil.copy(path, target)
"""
PACKAGE = {
    "csrc/answer.c": EXTENSION.replace("ANSWER", "42"),
    "setup.py": SETUP,
    "vllm/a.py": "value = 'old'\n",
    "vllm/untouched.py": "value = 0\n",
}
COMMAND = "python3 setup.py"
SOURCE_MODE = 'build = { mode = "source" }'
ASKED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import vllm._answer, vllm._generated, vllm.a
print(json.dumps([vllm._answer.answer(), vllm._generated.networks, vllm.a.value, vllm._answer.__file__]))
"""


@pytest.fixture(scope="module")
def reference(images: Images) -> str:
    """As releases of this field are: /opt/vllm is the source and a copy, site-packages is the other one."""
    return images.make(
        {f"/opt/vllm/{path}": text for path, text in PACKAGE.items()},
        f"RUN cd /opt/vllm && {COMMAND} && rm -r build",
        f"RUN python3 -m compileall -q {' '.join(COPIES)}",
        "USER 1000",
    )


def prepared(root: Path, reference: str) -> tuple[Bench, str]:
    """A stack's bench, and a head that changes C and Python."""
    bench = stack_bench(root, reference)
    bench.base = bench.origin.branch("main", bench.origin.commit({**PACKAGE, "vllm/b.py": None}, bench.base))
    changes = {"csrc/answer.c": EXTENSION.replace("ANSWER", "43"), "vllm/a.py": "value = 'new'\n"}
    return bench, bench.head(1, bench.pull(1, {**changes, "tests/test_a.py": "new\n"}))


def source_lock(root: Path, reference: str, command: str = COMMAND, source: str = "/opt/vllm") -> Path:
    bench, head = prepared(root, reference)
    how = {"source": source, "build_command": command}
    return lock(bench.stack(head, top=SOURCE_MODE, **how), output=root / "lock").folder


class TestBuilt:
    @pytest.fixture(scope="module", params=["classic", "buildx"])
    def image(
        self,
        images: Images,
        reference: str,
        buildkit_path: str,
        tmp_path_factory: pytest.TempPathFactory,
        request: pytest.FixtureRequest,
    ) -> tuple[BuiltImage, bytes]:
        root = tmp_path_factory.mktemp("source")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", buildkit_path)
            built = images.build(source_lock(root, reference), root / "build.log", request.param)
        return built, (root / "build.log").read_bytes()

    @pytest.mark.parametrize("copy", COPIES)
    def test_every_copy_answers_as_the_new_source_says(
        self, images: Images, reference: str, image: tuple[BuiltImage, bytes], copy: str
    ) -> None:
        assert images.run(reference, ASKED, copy)[0] == 42
        answer, networks, value, file = images.run(image[0].image_id, ASKED, copy)
        assert (answer, value, file) == (43, "new", f"{copy}/vllm/_answer.so")
        assert networks == ["lo"], "a build command is a stranger's code"

    def test_only_what_was_installed_gets_into_the_image(
        self, images: Images, reference: str, image: tuple[BuiltImage, bytes]
    ) -> None:
        """Neither build/, nor files that the build wrote again as they were, nor their bytecode."""
        before, after = images.members(reference), images.members(image[0].image_id)
        folders = [f"{copy.lstrip('/')}/vllm" for copy in COPIES]
        changed = {"opt/vllm/csrc/answer.c"}
        changed |= {f"{folder}/{name}" for folder in folders for name in ("_answer.so", "_generated.py", "a.py")}
        stale = {f"{f}/__pycache__/{name}.cpython-311.pyc" for f in folders for name in ("_generated", "a")}
        assert set(after) - set(before) == set()
        assert set(before) - set(after) == stale
        assert {path for path in before.keys() & after.keys() if before[path] != after[path]} == changed

    def test_the_log_has_the_command_and_its_output(self, image: tuple[BuiltImage, bytes]) -> None:
        built, log = image
        assert b"qualify: vllm: in /opt/vllm: python3 setup.py" in log
        assert log.index(b"qualify: vllm: in /opt/vllm") < log.index(b"compiling\n")
        assert built.log_sha256 == hashlib.sha256(log).hexdigest()

    def test_the_labels_say_how_it_was_built(self, images: Images, image: tuple[BuiltImage, bytes]) -> None:
        described = images.inspect(image[0].image_id)["Config"]
        assert described["Labels"]["qualify.image.build-mode"] == "source"
        assert described["User"] == "1000"


def test_an_overlay_of_the_same_head_is_refused(reference: str, tmp_path: Path) -> None:
    bench, head = prepared(tmp_path, reference)
    assert "compiled sources change" in refusal(bench.stack(head), output=tmp_path / "lock")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo no compiler; exit 3", "vllm: the build command ended with code 3: echo no compiler; exit 3"),
        ("true", "vllm: the build command changed nothing below /opt/vllm/vllm, /venv/site-packages: true"),
    ],
)
def test_a_build_that_fails_or_does_nothing_is_no_image(
    images: Images, reference: str, tmp_path: Path, command: str, told: str
) -> None:
    folder = source_lock(tmp_path, reference, command)
    with pytest.raises(SetupFailure) as caught:
        images.build(folder, tmp_path / "build.log")
    assert f"\n  {told}\n" in str(caught.value)
