"""Base, components, heads and claims of a stack: what is accepted, and how the rest is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.config.components import is_local, public_url
from harness.config.load import load_stack
from harness.config.model import Stack
from harness.errors import ConfigError

FIELDS: dict[str, object] = {
    "name": "vllm",
    "repository": "https://forge.example/vllm.git",
    "base_commit": "b" * 40,
    "packages": ["vllm"],
    "install": ["/opt/vllm"],
}
BASE = f"base = {{ reference = 'r/vllm@sha256:{'a' * 64}' }}\n"


class Case:
    """One stack file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s.toml"

    def write(self, text: str) -> Path:
        self.path.write_text(f"name = 's'\ndescription = 'd'\n{text}\n", "utf-8")
        return self.path

    def load(self, text: str) -> Stack:
        return load_stack(str(self.write(text))).model

    def refusal(self, text: str) -> str:
        with pytest.raises(ConfigError) as caught:
            self.load(text)
        return str(caught.value).removeprefix(f"{self.path}: ")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def component(extra: str = "", **fields: object) -> str:
    lines = (f"{key} = {json.dumps(value)}\n" for key, value in (FIELDS | fields).items() if value is not None)
    return f"{BASE}[[components]]\n{''.join(lines)}{extra}"


def heads(*tables: str) -> str:
    return f"heads = [{', '.join(f'{{ {t} }}' for t in tables)}]"


ONE, TWO = (f"pr = {n}, head = '{str(n) * 7}'" for n in (1, 2))


def test_a_stack_without_these_tables_is_what_it_was(case: Case) -> None:
    stack = case.load("serve.flags = { max-num-seqs = 8 }")
    assert (stack.base, stack.components, stack.claims, stack.extends, stack.build.mode) == (
        None,
        (),
        (),
        "",
        "overlay",
    )


def test_a_plan_that_was_written_before_these_tables_still_reads() -> None:
    old = {"name": "s", "description": "d", "model_path": "", "forge": {}, "serve": {"flags": {}, "env": {}}}
    assert Stack.model_validate(old) == Stack(name="s", description="d")


def test_a_stack_reads_back_from_what_a_plan_writes(case: Case) -> None:
    stack = case.load(component(heads(ONE, f"{TWO}, replaces = 1, strategy = 'cherry-pick'")))
    assert Stack.model_validate_json(stack.model_dump_json()) == stack


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (component(base_commit="b" * 12), "key `components.0.base_commit`: String should match pattern"),
        (component(base_commit=None), "key `components.0.base_commit`: Field required"),
        (component(base_commit="B" * 40), "key `components.0.base_commit`: String should match pattern"),
        (component(base_tree="x"), "key `components.0.base_tree`: String should match pattern"),
        (component(name="../x"), "key `components.0.name`: String should match pattern"),
        (component(packages=[]), "key `components.0.packages`: "),
        (component(packages=["../x"]), "key `components.0.packages.0`: the path leaves the repository"),
        (component(packages=["/x"]), "key `components.0.packages.0`: write a relative path"),
        (component(packages=["x/"]), "key `components.0.packages.0`: write a relative path"),
        (component(packages=["x", "x"]), "key `components.0`: packages names something twice: x, x"),
        (component(install=["opt"]), "key `components.0.install.0`: write an absolute path inside the image"),
        (component(install=["/opt/../etc"]), "key `components.0.install.0`: write an absolute path"),
        (component(install=["/opt/"]), "key `components.0.install.0`: write an absolute path"),
        (component(install=["/opt\n"]), "key `components.0.install.0`: control characters have no place here"),
        (component(install=["/opt", "/opt"]), "key `components.0`: install names something twice: /opt, /opt"),
        (component(haeds=[]), "key `components.0.haeds`: unknown key; check the spelling"),
        (component(heads(ONE, ONE)), "key `components.0`: #1 stands twice in heads"),
        (component(heads(ONE, f"{TWO}, replaces = 3")), "#2 replaces #3, which no earlier head of the list is"),
        (component(heads(f"{ONE}, replaces = 2", TWO)), "#1 replaces #2, which no earlier head of the list is"),
        (component(heads(f"{ONE}, replaces = 1")), "#1 replaces #1, which no earlier head of the list is"),
        (
            component(heads(ONE, f"{TWO}, replaces = 1", "pr = 3, head = '3333333', replaces = 1")),
            "#1 is replaced twice, by #2 and #3",
        ),
        (component(heads(f"{ONE}, strategy = 'rebase'")), "key `components.0.heads.0.strategy`: Input should be"),
        (component(heads(f'{ONE}, title = "a\\u001bb"')), "control characters have no place here"),
        (component() + component().removeprefix(BASE), "components names something twice: vllm, vllm"),
        (component().removeprefix(BASE), "[[components]] need the image that they go onto: [base] reference"),
        ("base = { release = 'r31' }", "key `base.reference`: Field required"),
        (
            component(source="/src"),
            "key `components.0`: source and build_command belong together: where to build, and how",
        ),
        (component(build_command="make"), "key `components.0`: source and build_command belong together"),
        (
            component(source="src", build_command="make"),
            "key `components.0.source`: write an absolute path inside the image",
        ),
        (
            component(source="/src", build_command="make\nrm -r /"),
            "key `components.0.build_command`: control characters have no place here",
        ),
        ("build = { installs = ['bin'] }", "key `build.installs.0`: write an absolute path inside the image"),
        ("build = { network = 'host' }", "key `build.network`: Input should be 'none' or 'default' (got 'host')"),
        ("build = { mode = 'wheel' }", "key `build.mode`: Input should be 'overlay' or 'source' (got 'wheel')"),
    ],
)
def test_what_cannot_be_locked_is_refused_with_its_key(case: Case, text: str, told: str) -> None:
    assert told in case.refusal(text)


@pytest.mark.parametrize(
    "claim",
    [
        "type = 'late_jit_removed', kernels = ['UnifiedPrefillMGKernel', '_b12x.kernel', 'ns::K']",
        "type = 'kv_tokens_min_change', change_tokens = -192",
        "type = 'kv_tokens_min_change', change_pct = -0.5",
        "type = 'free_mib_min', mib = 512",
        "type = 'free_mib_min_change', change_mib = 1024.5",
        "type = 'cold_start_max_change', change_s = 15.0",
        "type = 'cold_start_max_change', change_pct = 50",
        "type = 'throughput_min_change', metric = 'prefill', context_tokens = 32768, change_pct = 2.0",
        "type = 'throughput_min_change', metric = 'steps', change_pct = -1.0",
    ],
)
def test_a_claim_is_accepted_and_reads_back(case: Case, claim: str) -> None:
    stack = case.load(f"claims = [{{ {claim} }}]")
    assert Stack.model_validate_json(stack.model_dump_json()).claims == stack.claims
    assert f"'{stack.claims[0].type}'" in claim


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        ("kernels = ['a']", "key `claims.0.type`: Field required"),
        ("type = 'late_jit_removd', kernels = ['a']", "key `claims.0.type`: must be one of 'late_jit_removed', 'kv_"),
        ("type = 'late_jit_removed'", "key `claims.0.kernels`: Field required"),
        ("type = 'late_jit_removed', kernels = []", "key `claims.0.kernels`: Tuple should have at least 1 item"),
        ("type = 'late_jit_removed', kernels = ['a', 'a']", "key `claims.0`: kernels names a kernel twice"),
        ("type = 'late_jit_removed', kernels = ['a b']", "key `claims.0.kernels.0`: String should match pattern"),
        ("type = 'kv_tokens_min_change'", "key `claims.0`: give one bound, `change_tokens` or `change_pct`"),
        ("type = 'kv_tokens_min_change', change_tokens = 1, change_pct = 1.0", "key `claims.0`: give one bound"),
        (
            "type = 'kv_tokens_min_change', change_tokens = 1.5",
            "key `claims.0.change_tokens`: Input should be a valid int",
        ),
        ("type = 'kv_tokens_min_change', change_pct = -100.0", "key `claims.0.change_pct`: Input should be greater"),
        ("type = 'kv_tokens_min_change', tokens = 1", "key `claims.0.tokens`: unknown key; check the spelling"),
        ("type = 'free_mib_min', mib = 0", "key `claims.0.mib`: Input should be greater than 0 (got 0)"),
        ("type = 'free_mib_min', mib = '512'", "key `claims.0.mib`: Input should be a valid number (got '512')"),
        ("type = 'cold_start_max_change'", "key `claims.0`: give one bound, `change_s` or `change_pct`"),
        ("type = 'throughput_min_change', metric = 'tps', change_pct = 1", "key `claims.0.metric`: Input should be"),
    ],
)
def test_a_claim_that_nobody_could_judge_is_refused(case: Case, claim: str, told: str) -> None:
    assert case.refusal(f"claims = [{{ {claim} }}]").splitlines()[0].startswith(told)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("type = 'free_mib_min', mib = 1", "type = 'free_mib_min', mib = 2", "claims says twice: free_mib_min"),
        (
            "type = 'throughput_min_change', metric = 'decode', context_tokens = 2048, change_pct = 1",
            "type = 'throughput_min_change', metric = 'decode', context_tokens = 2048, change_pct = 2",
            "claims says twice: throughput_min_change decode 2048",
        ),
    ],
)
def test_two_claims_about_the_same_thing_are_refused(case: Case, one: str, other: str, told: str) -> None:
    assert case.refusal(f"claims = [{{ {one} }}, {{ {other} }}]").startswith(told)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://github.com/lab/vllm.git", "https://github.com/lab/vllm.git"),
        ("https://me:hunter2@github.com/lab/vllm.git", "https://github.com/lab/vllm.git"),
        ("https://ghp_token@github.com/lab/vllm.git", "https://github.com/lab/vllm.git"),
        ("https://github.com/lab/vllm.git?token=hunter2#x", "https://github.com/lab/vllm.git"),
        ("https://a@b:c@host:8443/x", "https://host:8443/x"),
        ("ssh://git@github.com/lab/vllm", "ssh://git@github.com/lab/vllm"),
        ("ssh://git:hunter2@github.com:22/lab/vllm", "ssh://git@github.com:22/lab/vllm"),
        ("git@github.com:lab/vllm.git", "git@github.com:lab/vllm.git"),
        ("file:///srv/vllm.git", "file:///srv/vllm.git"),
        ("../vllm.git", "../vllm.git"),
    ],
)
def test_an_address_is_shown_without_credentials(address: str, shown: str) -> None:
    assert public_url(address) == shown


def test_a_plan_carries_no_credentials_of_a_stack_s_address(case: Case) -> None:
    stack = case.load(component(repository="https://me:hunter2@forge.example/vllm.git"))
    assert "hunter2" in stack.components[0].repository
    assert "hunter2" not in stack.model_dump_json()


@pytest.mark.parametrize(
    ("repository", "local"),
    [
        ("https://x/y", False),
        ("git@github.com:lab/vllm.git", False),
        ("host:path", False),
        ("file:///srv/x", False),
        ("../x.git", True),
        ("/srv/x.git", True),
        ("./a:b", True),
        ("x", True),
    ],
)
def test_a_path_is_told_from_an_address(repository: str, local: bool) -> None:
    assert is_local(repository) is local
