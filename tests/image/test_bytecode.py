"""Bytecode that a patched source leaves behind: Python runs it in place of the patch, and after a build it is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.image.program.bytecode import stale
from tests.image.bench import Images, stack_bench
from tests.stack.bench import lock

OLD, NEW = "value = 'old'\n", "value = 'new'\n"
MODULES = {"unchecked": "unchecked-hash", "by_time": "timestamp"}
IMPORTED = """
import importlib, json, sys
sys.path.insert(0, "/opt/vllm")
print(json.dumps({name: importlib.import_module(f"vllm.{name}").value for name in sys.argv[1:]}))
"""
LAID_OVER = (
    """
import os, pathlib, sys
for name in sys.argv[1:]:
    path = pathlib.Path(f"/opt/vllm/vllm/{name}.py")
    old = path.stat()
    path.write_text("value = 'new'\\n")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))  # as archives and COPY keep them
"""
    + IMPORTED
)


@pytest.mark.docker
@pytest.mark.xdist_group("docker-images")
def test_stale_bytecode_runs_until_a_build_removes_it(images: Images, tmp_path: Path) -> None:
    old = {f"vllm/{name}.py": OLD for name in MODULES}
    compiling = " && ".join(
        f"python3 -m compileall -q --invalidation-mode {how} /opt/vllm/vllm/{name}.py" for name, how in MODULES.items()
    )
    reference = images.make({f"/opt/vllm/{path}": text for path, text in old.items()}, f"RUN {compiling}")
    bench = stack_bench(tmp_path, reference)
    bench.base = bench.origin.branch("main", bench.origin.commit(dict(old), bench.base))
    head = bench.pull(1, {f"vllm/{name}.py": NEW for name in MODULES})
    outcome = lock(bench.stack(bench.head(1, head), install=["/opt/vllm"]), output=tmp_path / "lock")
    built = images.build(outcome.folder, tmp_path / "build.log")

    assert images.run(reference, IMPORTED, *MODULES) == dict.fromkeys(MODULES, "old")
    assert images.run(reference, LAID_OVER, *MODULES) == dict.fromkeys(MODULES, "old"), "the files alone do not do it"
    assert images.run(built.image_id, IMPORTED, *MODULES) == dict.fromkeys(MODULES, "new")
    for name in MODULES:
        said = f"removed /opt/vllm/vllm/__pycache__/{name}.cpython-311.pyc, compiled from another source"
        assert said in (tmp_path / "build.log").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        ("__pycache__/a.cpython-38.pyc", True),
        ("__pycache__/a.cpython-312.opt-2.pyc", True),
        ("__pycache__/a.pypy39.pyc", True),
        ("a.pyc", True),
        ("a.pyo", True),
        ("__pycache__/aa.cpython-38.pyc", False),
        ("__pycache__/a.b.cpython-38.pyc", False),
        ("__pycache__/a.txt", False),
        ("__pycache__/a", False),
        ("aa.pyc", False),
        ("a.pyi", False),
        ("a.so", False),
    ],
)
def test_which_files_are_compiled_forms_of_a_module(tmp_path: Path, name: str, belongs: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    assert stale(str(tmp_path / "a.py")) == ([path] if belongs else [])


def test_a_cache_folder_elsewhere_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "prefix"))
    path = tmp_path / "prefix" / "opt" / "vllm" / "a.cpython-312.pyc"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    assert stale("/opt/vllm/a.py") == [path]


def test_what_is_no_python_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.pyc").write_bytes(b"")
    assert stale(str(tmp_path / "a.json")) == []
