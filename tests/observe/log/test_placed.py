"""Which process is which rank, and which worker died: from real logs of two ranks, and from lines made up."""

from __future__ import annotations

import pytest

from harness.observe.log import Kind, events
from harness.observe.log.placed import dead_worker, placed
from harness.observe.log.process import rank_name, rank_order, titled_rank
from tests.observe.shared_logs import log_bytes

from .support import parsed

FOUR = "golden/full_v0.32.0_cpu_tp4_mtp.log"
SOUND, KILLED = "golden/full_v0.32.0_cpu_tp2_mtp.log", "golden/death_v0.32.0_cpu_tp2_worker_killed.log"
DIED = "(EngineCore pid=1) ERROR 11-30 01:57:59 [multiproc_executor.py:315] Worker proc {} died unexpectedly{}.\n"
LOADS = "({} pid={}) INFO 11-30 01:57:55 [cpu_model_runner.py:68] Starting to load model /models/forged...\n"


@pytest.mark.parametrize(
    ("process", "rank"),
    [
        ("Worker_TP2", "TP2"),
        ("Worker_PP1_TP0", "PP1 TP0"),
        ("Worker_DP1_TP3_EP7", "DP1 TP3 EP7"),
        ("Worker_TP0_DCP1", "TP0 DCP1"),
        ("VllmWorker-1", "rank 1"),
        ("VllmWorker rank=3", "rank 3"),
        ("Worker", None),
        ("EngineCore_DP0", None),
        ("ApiServer_2", None),
        ("", None),
    ],
)
def test_a_workers_name_tells_its_place(process: str, rank: str | None) -> None:
    assert rank_name(process) == rank


def test_ranks_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["TP10", "TP2", "TP0"], key=rank_order) == ["TP0", "TP2", "TP10"]


def test_each_process_of_a_real_log_is_its_rank() -> None:
    found = placed(events([log_bytes(SOUND)]))
    assert (found.names, found.by_pid) == (("TP0", "TP1"), {29_304: "TP0", 29_305: "TP1"})


def test_four_ranks_of_a_real_log_are_told_apart_line_by_line() -> None:
    log = list(events([log_bytes(FOUR)]))
    found = placed(log)
    assert found.by_pid == {30_607: "TP0", 30_608: "TP1", 30_609: "TP2", 30_610: "TP3"}
    assert found.names == ("TP0", "TP1", "TP2", "TP3")
    assert [found.of(e) for e in log if e.kind is Kind.MEMORY_FIXED] == ["TP0", "TP2", "TP3", "TP1"]
    assert [e.values["kv_gib"] for e in log if e.kind is Kind.MEMORY_FIXED] == [1.0] * 4
    assert [found.of(e) for e in log if e.kind is Kind.LOAD_BEGIN] == ["TP3", "TP2", "TP0", "TP1"]
    assert {found.of(e) for e in log if e.kind is Kind.WEIGHTS} == {"TP0"}  # the first rank alone prints them
    assert dead_worker(log) is None


def test_a_kernel_that_is_late_on_one_rank_is_that_ranks() -> None:
    log = list(events([log_bytes("golden/h200x2_vllm0.25.1_tp2_mtp1_late_jit_on_one_rank.log")]))
    found = placed(log)
    late = [(e.values["kernel"], found.of(e)) for e in log if e.kind is Kind.LATE_JIT]
    assert late[0] == ("_gather_long_context_kernel", "TP1")
    assert sorted(late[1:]) == [("_topk_log_softmax_kernel", "TP0"), ("_topk_log_softmax_kernel", "TP1")]


def test_lines_from_before_the_rank_was_known_are_the_ranks_own() -> None:
    log = list(events([log_bytes(SOUND)]))
    found = placed(log)
    lines = {(e.process, found.of(e)) for e in log if e.process.startswith(("Worker", "VllmWorker"))}
    names = ("VllmWorker-{}", "Worker", "Worker_TP{}")
    assert lines == {(name.format(n), f"TP{n}") for name in names for n in (0, 1)}
    assert {found.of(e) for e in log if e.kind is Kind.MEMORY_FIXED} == {"TP0", "TP1"}
    assert {found.of(e) for e in log if e.process == "EngineCore"} == {None}


def test_the_rank_that_was_killed_is_named_and_the_one_that_the_engine_ended_is_not() -> None:
    assert dead_worker(events([log_bytes(KILLED)])) == "worker TP1 died (exit code -9)"
    assert dead_worker(events([log_bytes(SOUND)])) is None


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (LOADS.format("Worker_TP3", 7) + DIED.format("VllmWorker-3", " (exit code: -9), so"), "rank 3"),
        (DIED.format("VllmWorker-3", ""), "worker rank 3 died"),
        (DIED.format("Worker_PP1_TP0", ""), "worker PP1 TP0 died"),
        (DIED.format("somebody", ""), "worker somebody died"),
    ],
    ids=["no line of it under that name", "nothing but its death", "a name with its place", "no name of a worker"],
)
def test_a_worker_whose_place_no_line_tells_goes_by_its_name(log: str, told: str) -> None:
    assert told in (dead_worker(parsed(log)) or "")


PLACE = "(Worker pid={0}) INFO 11-30 01:57:55 [parallel_state.py:1607] world_size=4 rank={1} local_rank={1} "
PLACE += "distributed_init_method=tcp://127.0.0.1:41463 backend=nccl\n"


class TestDecodeContextParallel:
    """vLLM 0.25.1 on two H200s: `Worker_TP0_DCP0`, and no line under the names that the engine has for its workers."""

    LOG = "golden/h200x2_vllm0.25.1_mla_dcp2_mtp1.log"
    RANKS = ("TP0 DCP0", "TP1 DCP1")

    def test_each_process_is_its_rank_in_every_line(self) -> None:
        log = list(events([log_bytes(self.LOG)]))
        found = placed(log)
        assert (found.names, found.by_pid) == (self.RANKS, {410: self.RANKS[0], 411: self.RANKS[1]})
        assert [(e.pid, found.of(e), e.values["rank"]) for e in log if e.kind is Kind.WORKER_RANK] == [
            (410, "TP0 DCP0", 0),
            (411, "TP1 DCP1", 1),
        ]
        for kind in (Kind.JIT_ARMED, Kind.LATE_JIT):
            assert {found.of(e) for e in log if e.kind is kind} == set(self.RANKS)
        assert {found.of(e) for e in log if e.kind in (Kind.KV_MEMORY, Kind.MODEL_LOADED)} == {"TP0 DCP0"}

    @pytest.mark.parametrize("rank", [0, 1])
    def test_the_one_that_died_is_named_by_what_it_told_of_its_rank(self, rank: int) -> None:
        death = DIED.format(f"VllmWorker-{rank}", " (exit code: -9), shutting down executor")
        log = log_bytes(self.LOG) + death.encode()
        assert dead_worker(events([log])) == f"worker {self.RANKS[rank]} died (exit code -9)"

    def test_its_titles_are_those_ranks_too(self) -> None:
        titles = [f"VLLM::Worker_{name.replace(' ', '_')}" for name in self.RANKS]
        assert titles == ["VLLM::Worker_TP0_DCP0", "VLLM::Worker_TP1_DCP1"], "as its host.parquet has them"
        assert tuple(map(titled_rank, titles)) == self.RANKS

    @pytest.mark.parametrize("title", ["VLLM::Worker_TP", "VLLM::Worker", "VLLM::Worker_TP0_DC", "VLLM::EngineCore"])
    def test_a_title_that_lost_its_end_names_no_other_rank(self, title: str) -> None:
        """The kernel keeps 15 characters of a zombie's, which ends before the first number."""
        cut = title[:15]
        assert titled_rank(cut) is None


def test_of_several_engines_whose_workers_names_are_alike_no_place_is_made_up() -> None:
    log = "".join(PLACE.format(n, n) + LOADS.format(f"Worker_DP{n // 2}_TP{n % 2}", n) for n in range(4))
    assert dead_worker(parsed(log + DIED.format("VllmWorker-1", ""))) == "worker rank 1 died"


def test_a_rank_of_a_pipeline_is_named_by_both_its_places() -> None:
    log = "".join(
        PLACE.format(n + 50, n) + LOADS.format(f"Worker_PP{n // 2}_TP{n % 2}_EP{n % 2}", n + 50) for n in range(4)
    )
    assert dead_worker(parsed(log + DIED.format("VllmWorker-2", ""))) == "worker PP1 TP0 EP0 died"


def test_the_first_death_counts_since_the_others_follow_from_it() -> None:
    early = "(VllmWorker-{0} pid={0}) INFO 11-30 01:57:55 [x.py:1] Using V2 Model Runner\n"
    start = early.format(1) + early.format(0) + LOADS.format("Worker_TP1", 1) + LOADS.format("Worker_TP0", 0)
    log = start + DIED.format("VllmWorker-1", " (exit code: 1)") + DIED.format("VllmWorker-0", " (exit code: -15)")
    assert dead_worker(parsed(log)) == "worker TP1 died (exit code 1)"


def test_a_number_that_carries_two_places_is_nobodys() -> None:
    found = placed(parsed(LOADS.format("Worker_TP0", 7) + LOADS.format("Worker_TP1", 7)))
    assert (found.names, found.by_pid) == (("TP0", "TP1"), {})
