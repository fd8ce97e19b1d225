"""What tests of statements look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.evidence.keys import HostKey
from harness.evidence.manifest import MANIFEST
from harness.evidence.predicates import MEASUREMENTS_FILE, TEST_RESULT_FILE
from harness.evidence.statement import check_statement

STATEMENTS = (MEASUREMENTS_FILE, TEST_RESULT_FILE)
CHALLENGE = "https://forge.example/pull/126#comment-1"


def manifest(root: Path) -> bytes:
    return (root / MANIFEST).read_bytes()


def tree(root: Path, name: str) -> Any:
    return json.loads((root / name).read_bytes())


def fields(root: Path, *trusted: HostKey) -> set[tuple[str, str]]:
    found = check_statement(root, manifest(root), trusted=[k.signer.public_key for k in trusted])
    return {(m.file, m.field) for m in found}
