"""The measuring client end to end: several streams, broken streams, and its own self-test in the bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.judge.case import read_case
from harness.judge.verdict import judge
from harness.records import Row
from harness.words import ExitCode, LaunchStatus, Step, Word

from .sessions import Finished, left_running, run, stack

SHORT = "course.contexts=[{prompt_tokens=256, prefill_passes=1, decode_passes=1}]"
STREAMS = "course.contexts=[{prompt_tokens=256, prefill_passes=1, decode_passes=2, streams=[1, 4]}]"
PACE = "serve.env.QUALIFY_FAKE_STEP_S='0.01'"


def session(results: Path, profile: str, *settings: str, candidate: Path | None = None) -> Finished:
    arguments = [part for s in settings for part in ("--set", s)]
    return run(results, "--profile", profile, *arguments, *(("--candidate", str(candidate)) if candidate else ()))


class TestStreams:
    def test_four_streams_are_four_at_a_time_and_every_count_agrees(self, results: Path, profile: str) -> None:
        done = session(results, profile, STREAMS, PACE)
        assert done.code == ExitCode.PASS, done.out
        row = done.row("concurrency, 4 streams")
        assert row.word is Word.PASS
        assert (row.control or "").startswith("client 4 / 4")
        assert done.row("counts agree").word is Word.PASS
        assert done.row("known answers").word is Word.PASS
        assert done.row("draft arithmetic").word is Word.PASS
        assert numbers(done.row("tokens per step, 4 streams"))[0] > 1
        for launch in read_case(done.bundle).launches.values():
            windows = [w for w in launch.windows if w.window.step is Step.DECODE]
            assert [(w.window.streams, len(w.requests)) for w in windows] == [(1, 1), (1, 1), (4, 12), (4, 12)]
            prompts = [r.prompt_sha256 for w in windows for r in w.requests]
            assert len(set(prompts)) == len(prompts)

    def test_a_server_with_fewer_slots_queues_and_is_named(self, results: Path, profile: str, tmp_path: Path) -> None:
        two = tmp_path / "two.toml"
        two.write_text(
            'schema_version = 1\nname = "two"\ndescription = "two slots"\n[serve.flags]\nmax-num-seqs = 2\n', "utf-8"
        )
        done = session(results, profile, STREAMS, PACE, candidate=two)
        row = done.row("concurrency, 4 streams")
        assert row.word is Word.WARN, done.out
        assert "the server ran at most 2 at a time" in row.reason
        waited = done.row("queue time, 4 streams")
        assert numbers(waited, arm="candidate")[0] > numbers(waited)[0]

    def test_one_broken_stream_of_twelve_fails_the_cell_and_is_named(
        self, results: Path, profile: str, tmp_path: Path
    ) -> None:
        # 1 readiness, 1 first prompt, 1 prefill, 2 decode of one stream: the seventh is of the four streams.
        faulty = stack(tmp_path, "faulty", QUALIFY_FAKE_FAULTS="error-event@7")
        done = session(results, profile, STREAMS, PACE, candidate=faulty)
        row = done.row("requests served in full")
        assert (row.word, done.code) == (Word.FAIL, ExitCode.FAIL)
        assert "decode/256/2: request 00" in row.reason
        assert "error event: " in row.reason


def numbers(row: Row, arm: str = "control") -> list[float]:
    text = row.control if arm == "control" else row.candidate
    assert text is not None, row
    return [float(part.replace(",", "")) for part in text.split(" / ")]


class TestBrokenServers:
    @pytest.mark.parametrize(
        ("faults", "name", "word", "told"),
        [
            ("error-event@3", "requests served in full", Word.FAIL, "error event: "),
            ("drop-mid-stream@3", "requests served in full", Word.FAIL, "ChunkedEncodingError: "),
            ("trickle-headers@3", "requests served in full", Word.FAIL, "not finished within 2 s"),
            ("slow-death=4", "served to the end", Word.FAIL, "failed at after ready: the server ended by itself"),
            ("preempt@3", "counts agree", Word.VOID, "preemptions: the client counts 0, the server 1"),
        ],
        ids=lambda v: v.partition("=")[0] if isinstance(v, str) and v[0].islower() else None,
    )
    def test_a_fault_of_the_candidate_is_named(
        self, results: Path, profile: str, tmp_path: Path, faults: str, name: str, word: Word, told: str
    ) -> None:
        candidate = stack(tmp_path, "faulty", QUALIFY_FAKE_FAULTS=faults)
        done = session(results, profile, SHORT, "timeouts.request_s=2", candidate=candidate)
        row = done.row(name)
        assert (row.word, done.code) == (word, done.verdict.exit_code), done.out
        assert told in row.reason
        assert not left_running(results)

    @pytest.mark.parametrize("env", ["QUALIFY_FAKE_FAULTS=torn-log,vary-chunks", "QUALIFY_FAKE_LOG=0.10.2"])
    def test_what_is_strange_and_right_passes(self, results: Path, profile: str, tmp_path: Path, env: str) -> None:
        name, _, value = env.partition("=")
        done = session(results, profile, SHORT, candidate=stack(tmp_path, "strange", **{name: value}))
        assert done.code == ExitCode.PASS, done.out
        for row in ("counts agree", "known answers", "identity, candidate vs control"):
            assert done.row(row).word is Word.PASS
        launches = [x.record for x in read_case(done.bundle).launches.values() if x.record is not None]
        assert {r.status for r in launches} == {LaunchStatus.COMPLETED}


def test_the_self_test_is_evidence_and_a_row(results: Path, profile: str) -> None:
    done = session(results, profile, SHORT, "client.selftest_s=0.2", "client.selftest_streams=4")
    assert done.code == ExitCode.PASS, done.out
    found = done.bundle.selftest()
    assert found is not None
    assert (found.error, found.ids_exact) == (None, True)
    assert found.events_received == found.events_expected
    assert done.row("client self-test").word in (Word.PASS, Word.WARN), "times depend on how busy this machine is"
    assert " selftest.json\n" in (done.bundle.root / "SHA256SUMS").read_text("utf-8")

    for changes, word, told in (
        ({"events_expected": None, "error": "no port"}, Word.WARN, "it could not be run: no port"),
        ({"ids_exact": False}, Word.VOID, "the client does not count right: token ids are not the server's"),
        ({"delivery_p99_ms": 5.01}, Word.WARN, "delivery p99 5.01 ms, bar 5"),
    ):
        done.bundle.selftest_file.write_text(found.model_copy(update=changes).model_dump_json(), "utf-8")
        [row] = [r for r in judge(done.bundle).rows if r.name == "client self-test"]
        assert row.word is word
        assert told in row.reason
