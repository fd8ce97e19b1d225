"""Two sessions side by side: only where they measured the same thing, and what is not the same is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import ConfigError
from harness.evidence.bundle import Bundle, write_record
from harness.judge.case import read_case
from harness.judge.cell_identity import difference_text, different, identity
from harness.judge.compare import compare_lines
from harness.records import Plan, Run
from harness.words import Arm, ExitCode

from .bundles import Judged, Session, stack

FOUR: dict[str, object] = {"plan.pairs": 4, "plan.caches": ["warm"]}


def bundle(root: Path, overrides: dict[str, object] | None = None, *, speed: float = 1.0, **flags: int) -> Bundle:
    session = Session(root, FOUR | (overrides or {}), candidate=stack("candidate", None, **flags))
    return session.candidate(speed=speed).build()


def lines(one: Bundle, other: Bundle, *, across_hosts: bool = False) -> list[str]:
    return compare_lines(read_case(one), read_case(other), across_hosts=across_hosts)


def on_another_host(at: Bundle) -> Bundle:
    run: Run = at.run()
    write_record(at.run_file, run.model_copy(update={"host": run.host.model_copy(update={"cores": 64})}))
    return at


def test_ratios_to_the_control_are_compared_with_their_own_interval(tmp_path: Path) -> None:
    found = lines(bundle(tmp_path / "a"), bundle(tmp_path / "b", speed=0.9))
    [steps] = [x for x in found if "engine warm 96 decode steps: A +" in x or "engine warm 96 decode steps: A -" in x]
    assert "; B -10.0 % (" in steps
    assert "; B to A -10.0 % (90 % interval -" in steps
    assert "mtp1 engine warm 96 decode steps: A pass, B fail" in found
    assert not [x for x in found if "ACROSS HOSTS" in x]


def test_the_same_session_twice_has_moved_by_nothing(tmp_path: Path) -> None:
    one = bundle(tmp_path)
    found = lines(one, one)
    assert all("; B to A +0.0 % (" in x for x in found if "B to A" in x)
    assert not [x for x in found if ", B fail" in x]


@pytest.mark.parametrize(
    ("overrides", "flags", "named"),
    [
        ({"plan.seed": 7}, {}, "seed: "),
        ({"course.decode_output_tokens": 24}, {}, "course: decode_output_tokens 30 vs 24"),
        ({"serve.flags.max-num-seqs": 3}, {}, "flags: flags "),
        ({"serve.env": {"A": "1"}}, {}, "flags: env "),
        ({}, {"max_num_seqs": 3}, "flags of the candidate: flags "),
        ({"modes.mtp1.env": {"A": "1"}}, {}, "mode: env "),
    ],
)
def test_sessions_that_measured_something_else_are_refused_by_the_field(
    tmp_path: Path, overrides: dict[str, object], flags: dict[str, int], named: str
) -> None:
    one, other = bundle(tmp_path / "a"), bundle(tmp_path / "b", overrides, **flags)
    with pytest.raises(ConfigError, match="did not measure the same thing") as refused:
        lines(one, other, across_hosts=True)
    assert named in str(refused.value)
    assert ";" not in str(refused.value), "that field and no other"


def test_what_does_not_touch_a_figure_is_no_part_of_its_identity(tmp_path: Path) -> None:
    changed: dict[str, object] = {
        "plan.pairs": 2,
        "gates.throughput_pct": 1.0,
        "timeouts.stop_s": 5.0,
        "estimate.course_s": 1.0,
    }
    assert lines(bundle(tmp_path / "a"), bundle(tmp_path / "b", changed))


def test_another_model_or_measurement_is_refused(tmp_path: Path) -> None:
    one, other, third = (bundle(tmp_path / x) for x in "abc")
    lock = other.lock(Arm.CONTROL)
    write_record(
        other.lock_file(Arm.CONTROL), lock.model_copy(update={"model_sha256": {"model.safetensors": "c" * 64}})
    )
    with pytest.raises(ConfigError, match=r"model of the control: model\.safetensors"):
        lines(one, other)
    plan: Plan = third.plan()
    write_record(third.plan_file, plan.model_copy(update={"measurement": 2}))
    with pytest.raises(ConfigError, match="measurement version: 1 vs 2"):
        lines(one, third)


def test_another_cache_state_is_refused(tmp_path: Path) -> None:
    one = bundle(tmp_path / "a")
    other = Session(tmp_path / "b", FOUR).both(compiled="miss").build()
    with pytest.raises(ConfigError, match='cache: "warm" vs "recompiled"'):
        lines(one, other)


def test_hosts_are_never_mixed_unless_asked_and_then_it_says_so(tmp_path: Path) -> None:
    one, other = bundle(tmp_path / "a"), on_another_host(bundle(tmp_path / "b"))
    with pytest.raises(ConfigError, match=r"host class: cores 2 vs 64 \(--across-hosts shows it"):
        lines(one, other)
    assert "ACROSS HOSTS, as asked; no figure here is evidence: host class: cores 2 vs 64" in lines(
        one, other, across_hosts=True
    )


def test_two_machines_of_one_class_are_two_hosts(tmp_path: Path) -> None:
    """Where both say which one they are; bundles of before there was an id are compared by their class."""

    def named(at: Bundle, host_id: str | None) -> Bundle:
        run: Run = at.run()
        write_record(at.run_file, run.model_copy(update={"host": run.host.model_copy(update={"id": host_id})}))
        return at

    one, other = (named(bundle(tmp_path / x), x * 32) for x in "ab")
    with pytest.raises(ConfigError, match=r"host class: two machines, aaaaaaaa vs bbbbbbbb \(--across-hosts shows it"):
        lines(one, other)
    assert "ACROSS HOSTS, as asked; no figure here is evidence: host class: two machines" in "\n".join(
        lines(one, other, across_hosts=True)
    )
    assert lines(one, named(other, "a" * 32))
    assert lines(one, named(other, None))


def test_sessions_without_a_common_cell_are_refused_and_a_cell_of_one_is_named(tmp_path: Path) -> None:
    one = bundle(tmp_path / "a")
    with pytest.raises(ConfigError, match="no cell in common"):
        lines(one, bundle(tmp_path / "b", {"plan.modes": ["mtp0"]}))
    both_modes = bundle(tmp_path / "c", {"plan.modes": ["mtp1", "mtp0"]})
    assert "mtp0 engine warm  only in B" in lines(one, both_modes)


def test_the_command_prints_it_and_refuses_as_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = bundle(tmp_path / "a"), on_another_host(bundle(tmp_path / "b"))
    assert main(["compare", str(one.root), str(one.root)]) == ExitCode.PASS
    assert "B to A +0.0 %" in capsys.readouterr().out
    assert main(["compare", str(one.root), str(other.root)]) == ExitCode.USAGE
    assert "did not measure the same thing" in capsys.readouterr().err
    assert main(["compare", str(one.root), str(other.root), "--across-hosts"]) == ExitCode.PASS


def test_rows_carry_the_identity_of_their_cell(tmp_path: Path) -> None:
    a, b = Judged.of(bundle(tmp_path / "a")), Judged.of(bundle(tmp_path / "b", speed=0.9))
    for context in (48, 96):
        hashes = [x.row("prefill", cache="warm", context_tokens=context).cell_sha256 for x in (a, b)]
        assert hashes[0] == hashes[1]
        assert hashes[0] is not None
    rows = a.rows("prefill", cache="warm")
    assert len({r.cell_sha256 for r in rows}) == len(rows) == 2, "the context is part of it"
    assert {r.cell_sha256 for r in a.verdict.rows if r.mode is None} == {None}


def test_a_field_that_only_one_side_knows_is_a_difference(tmp_path: Path) -> None:
    case = read_case(bundle(tmp_path))
    whole = identity(case, case.cells[0], 48)
    less = {k: v for k, v in whole.items() if k != "seed"}
    assert different(whole, less) == different(less, whole) == ["seed"]
    assert difference_text(less, whole, "seed").startswith("seed: null vs ")
