"""A judged bundle of a host with a key and one of a host without."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.evidence.bundle import write_record
from harness.evidence.keys import HostKey, make_key
from harness.evidence.manifest import seal
from harness.records import Signer
from harness.workflow import judge_and_report
from tests.judge.bundles import Session

from .support import CHALLENGE


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> HostKey:
    return make_key(tmp_path_factory.mktemp("keys") / "host.pem")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> HostKey:
    return make_key(tmp_path_factory.mktemp("other") / "host.pem")


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged bundle of a host without a key."""
    bundle = Session(tmp_path_factory.mktemp("unsigned"), {"plan.challenge": CHALLENGE}).build()
    seal(bundle.root)
    judge_and_report(bundle)
    return bundle.root


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, key: HostKey) -> Path:
    """The same, of a host with one."""
    bundle = Session(tmp_path_factory.mktemp("signed")).build()
    named = bundle.run().model_copy(update={"signer": Signer(key_id=key.id, public=key.public)})
    write_record(bundle.run_file, named)
    seal(bundle.root)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("QUALIFY_KEY", str(key.path))
        judge_and_report(bundle)
    return bundle.root


@pytest.fixture
def copy(signed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed, tmp_path / "copy"))
