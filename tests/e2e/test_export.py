"""A session that really ran, of a stack with a secret in its environment, shared as a user shares it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import zstandard

from harness.evidence.bundle import Bundle
from harness.evidence.exported import laid_out
from harness.judge.verdict import judge
from harness.words import ExitCode
from tests.evidence.private_bundles import every_byte

from .sessions import fake_profile, run, stack

SECRETS = {"WANDB_API_KEY": "f00dfacef00dface77", "NOTES": "see http://rigel-12:8000 or ask jo.doe@example.org"}
PRIVATE = (b"f00dfacef00dface77", b"rigel-12", b"jo.doe", b"hannelore")


def test_a_session_is_shared_without_what_is_private_and_judged_the_same(tmp_path: Path) -> None:
    results = tmp_path / "results"
    candidate = stack(tmp_path, "private", **SECRETS, WORK="/home/hannelore/work")
    done = run(results, "--profile", str(fake_profile(tmp_path)), "--candidate", str(candidate))
    assert done.code == ExitCode.PASS, done.out
    assert any(private in data for _, data in every_byte(done.bundle.root) for private in PRIVATE)

    output = tmp_path / "shared.tar.zst"
    arguments = ("export", str(done.bundle.root), "-o", str(output))
    told = run(results, *arguments, program=("-m", "harness.cli"))
    assert told.code == 0, told.out
    assert "removed: secret, 1 different in " in told.out
    assert "removed: user, 1 different in " in told.out

    with tarfile.open(
        fileobj=io.BytesIO(zstandard.ZstdDecompressor().stream_reader(output.read_bytes()).read())
    ) as tar:
        tar.extractall(tmp_path / "shared", filter="data")
    [folder] = (tmp_path / "shared").iterdir()
    assert not [(name, p) for name, data in every_byte(folder) for p in PRIVATE if p in data]
    root, mismatches = laid_out(folder, tmp_path / "again")
    assert mismatches == []
    assert judge(Bundle(root)) == done.verdict
