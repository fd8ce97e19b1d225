"""Libraries as the tracer meets them: small packages with the real shapes of their hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.launch.tracing import TRACER, VARIABLE

KNOBS = """
class Runtime:
    jit_cache_hook = None
    jit_post_compile_hook = None
runtime = Runtime()
"""

COMPILER = """
import os
class ASTSource:
    def __init__(self, fn, signature, constants):
        self.fn, self.signature, self.constants, self.name = fn, signature, constants, fn.__name__
    def make_ir(self):
        return "ir"
class CompiledKernel:
    def __init__(self, src):
        self.src, self.name, self.hash, self.module = src, src.name, "h", None
    def _init_handles(self):
        if self.module is None:
            self.module = object()
def compile(src, target=None, options=None):
    '''The compiler.'''
    if not os.path.exists(os.environ.get("FAKE_CACHE", "/nowhere")):
        src.make_ir()
    if src.name == "broken":
        raise ValueError("cannot compile")
    return CompiledKernel(src)
"""

JIT = """
import json
from types import SimpleNamespace
from .. import knobs
def serialize_specialization_data(constants):
    return json.dumps({str(k): v for k, v in constants.items()})
class JITFunction:
    def __init__(self, fn, params):
        self.fn, self.__name__, self.cache = fn, fn.__name__, {}
        self.params = [SimpleNamespace(name=n, is_constexpr=n.isupper()) for n in params]
    def _call_hook(self, hook, key, signature, constants):
        if hook is None:
            return None
        info = SimpleNamespace(module=self.fn.__module__, name=self.fn.__qualname__, jit_function=self)
        data = serialize_specialization_data(constants)
        compiled = {"key": key, "signature": signature, "constants": constants, "num_warps": 4, "num_ctas": 1,
                    "num_stages": 3, "specialization_data": data}
        return hook(key=key, repr=key, fn=info, compile=compiled, is_manual_warmup=False, already_compiled=False)
    def run(self, **values):
        key = str(values)
        if key in self.cache:
            return self.cache[key]
        constants = {(i,): values[p.name] for i, p in enumerate(self.params) if p.is_constexpr or values[p.name] == 1}
        signature = {p.name: "constexpr" if (i,) in constants else "*i32" for i, p in enumerate(self.params)}
        if self._call_hook(knobs.runtime.jit_cache_hook, key, signature, constants):
            return None
        from ..compiler import ASTSource, compile
        options = {"num_warps": 4, "num_ctas": 1, "num_stages": 3, "debug": False}
        kernel = self.cache[key] = compile(ASTSource(self, signature, constants), target=None, options=options)
        self._call_hook(knobs.runtime.jit_post_compile_hook, key, signature, constants)
        kernel._init_handles()
        return kernel
"""

OLD_JIT = JIT.replace("from .. import knobs\n", "").replace(
    "class JITFunction:", "class JITFunction:\n    cache_hook = None\n    compiled_hook = None"
).replace("knobs.runtime.jit_cache_hook", "JITFunction.cache_hook").replace(
    "knobs.runtime.jit_post_compile_hook", "JITFunction.compiled_hook"
)  # fmt: skip

AUTOTUNER = """
class Autotuner:
    def __init__(self, fn, configs):
        self.fn = self.base_fn = fn
        self.__name__, self.configs, self.cache = fn.__name__, configs, {}
    def _bench(self, *args, config, **meta):
        return self.fn.run(**meta, **config)
    def run(self, key, **kwargs):
        if key not in self.cache:
            for config in self.configs:
                self._bench(config=config, **kwargs)
            self.cache[key] = self.configs[0]
        self.best_config = self.cache[key]
        return self.fn.run(**kwargs, **self.best_config)
"""

TRITON = {
    "triton/__init__.py": "__version__ = '3.9.0'\nfrom .runtime import jit, autotuner\nfrom .compiler import compile\n",
    "triton/knobs.py": KNOBS,
    "triton/compiler/__init__.py": "from .compiler import ASTSource, CompiledKernel, compile\n",
    "triton/compiler/compiler.py": COMPILER,
    "triton/runtime/__init__.py": "",
    "triton/runtime/jit.py": JIT,
    "triton/runtime/autotuner.py": AUTOTUNER,
}
OLD_TRITON = {**TRITON, "triton/runtime/jit.py": OLD_JIT}
del OLD_TRITON["triton/knobs.py"]

CUTLASS = {
    "cutlass/__init__.py": "__version__ = '4.5.0'\nclass Constexpr: pass\n",
    "cutlass/base_dsl/__init__.py": "",
    "cutlass/base_dsl/compiler.py": """
class Compiler:
    def compile(self, module):
        return module
class CompileCallable:
    '''As in nvidia-cutlass-dsl 4: options stand in brackets.'''
    def __init__(self, options=()):
        self.options = options
    def __getitem__(self, options):
        return CompileCallable(options)
    def __call__(self, function, *args, **kwargs):
        if kwargs.get("fails"):
            raise RuntimeError("cannot compile")
        return ("compiled", function, self.options)
""",
    "cutlass/base_dsl/dsl.py": """
from .compiler import Compiler
class BaseDSL:
    def __init__(self):
        self.files, self.compiler_provider = set(), Compiler()
    def compile_and_cache(self, module, module_hash, function_name, pipeline, sig, no_cache, no_jit_engine):
        if module_hash not in self.files:
            self.compiler_provider.compile(module)
        self.files.add(module_hash)
""",
    "cutlass/base_dsl/export/__init__.py": "",
    "cutlass/base_dsl/export/external_binary_module.py": """
class ExternalBinaryModule:
    def __init__(self, file_path, enable_tvm_ffi=False):
        self.content = open(file_path).read()
    def __getattr__(self, function_prefix):
        if function_prefix not in self.content:
            raise RuntimeError("not found in the module")
        return lambda *args: function_prefix
    def __getitem__(self, function_prefix):
        return self.__getattr__(function_prefix)
""",
    "cutlass/cute/__init__.py": """
from ..base_dsl.compiler import CompileCallable
from ..base_dsl.dsl import BaseDSL
from ..base_dsl.export.external_binary_module import ExternalBinaryModule
compile = CompileCallable()
""",
}
OLD_CUTLASS = {
    "cutlass/__init__.py": "",
    "cutlass/cute/__init__.py": "def compile(function, *args, **kwargs):\n    return ('compiled', function, ())\n",
}
TILELANG = {
    "tilelang/__init__.py": "__version__ = '0.1.7'\n",
    "tilelang/jit/__init__.py": "",
    "tilelang/jit/kernel.py": """
class JITKernel:
    def __init__(self, func=None, out_idx=None, execution_backend="cython", target="auto", target_host=None,
                 verbose=False, pass_configs=None, from_database=False):
        self.func = func
""",
}


class Traced:
    """A program that ran with the tracer, and what the tracer wrote."""

    def __init__(self, done: subprocess.CompletedProcess[str], folder: Path) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.folder = folder

    @property
    def records(self) -> list[dict[str, Any]]:
        """Every line of every process, in the order of their time."""
        files = sorted(self.folder.glob("*.jsonl"))
        found = [json.loads(line) for file in files for line in file.read_text("ascii").splitlines()]
        return sorted(found, key=lambda r: r["mono_ns"])

    def of(self, record: str, **where: object) -> list[dict[str, Any]]:
        """Records of one kind, narrowed by fields."""
        found = [r for r in self.records if r["record"] == record]
        return [r for r in found if all(r.get(k) == v for k, v in where.items())]

    def hooks(self) -> dict[str, str]:
        """The last word on each hook."""
        return {r["hook"]: r["status"] for r in self.of("hook")}

    def compiled(self) -> list[tuple[str, dict[str, Any]]]:
        """Kernels with their constants, in the order of their compilation."""
        return [(r["kernel"], r["constexprs"]) for r in self.of("kernel", event="compile")]


def write(folder: Path, *packages: Mapping[str, str]) -> Path:
    """Write packages into a folder."""
    for name, text in (item for package in packages for item in package.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def run(
    folder: Path,
    program: str,
    *packages: Mapping[str, str],
    python: str = sys.executable,
    arguments: tuple[str, ...] = (),
    **environment: str,
) -> Traced:
    """Run a program with the tracer in front of the packages."""
    site, trace = write(folder / "site", *packages), folder / "trace"
    trace.mkdir(exist_ok=True)
    path = os.pathsep.join([str(TRACER), str(site), environment.pop("behind", str(site))])
    done = subprocess.run(
        [python, *arguments, "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, VARIABLE: str(trace), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Traced(done, trace)
