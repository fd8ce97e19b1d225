"""`qualify doctor` fails only for what the profile needs."""

from __future__ import annotations

import pytest

from harness import doctor


@pytest.mark.parametrize(("profile", "state"), [("cpu-forged", "FAIL"), ("h200-forged", "note")])
def test_a_missing_embedded_engine_fails_only_the_profile_that_starts_it(
    profile: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "engine_command", lambda _: ["/nowhere/vllm"])
    found = {f.subject: f for f in doctor.examine(profile)}
    assert found["profile"].state == "ok"
    assert found["embedded engine"].state == state


def test_an_unknown_profile_fails_and_so_does_the_engine_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "engine_command", lambda _: ["/nowhere/vllm"])
    found = {f.subject: f.state for f in doctor.examine("no-such-profile")}
    assert (found["profile"], found["embedded engine"]) == ("FAIL", "FAIL")
