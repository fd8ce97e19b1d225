"""What the host states about a session: two in-toto statements, each signed in a DSSE envelope where there is a key.

    statement.test-result.intoto.json    the published predicate, for whoever gates on test results
    statement.intoto.json                our own predicate with the measurements: docs/statement.md
    statement*.intoto.json.dsse          the same bytes, signed

A session states once, at its end; what is judged again later is compared with that and never stated again.
Statements are derived: they carry the root hash of the evidence and the hashes of verdict and report, so they
are no part of SHA256SUMS, and whoever holds the bundle can make them again and compare.

Records of pydantic instead of the classes of in-toto-attestation: those are protobuf messages, which hold every
number of a predicate as a float, and cannot tell an unknown field of a hostile statement from a known one. A
test has that package read what is written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import BundleError, ConfigError
from harness.evidence.bundle import Bundle, read_record, write_atomically
from harness.evidence.keys import HostKey, public_key, short
from harness.evidence.ledger import LedgerProof
from harness.evidence.manifest import KILLED
from harness.evidence.mismatch import Mismatch
from harness.evidence.pipe import FOLDER, MANIFEST, STATEMENTS
from harness.evidence.predicates import Json, ended_text, statements
from harness.records import Signer

if TYPE_CHECKING:
    from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # it re-exports it

PAYLOAD_TYPE = "application/vnd.in-toto+json"
DSSE = ".dsse"
LIMIT_BYTES = 32 << 20
"""Of a statement: a session of the largest profile has some hundred rows, which are some hundred kB."""
SHOWN = 80
"""Characters of a value in a mismatch."""


@dataclass(frozen=True)
class Signature:
    """Who signed a bundle's statements."""

    key_id: str | None
    """None = nobody."""
    trusted: bool = False
    """True where it is one of the keys that the reader named."""

    def __str__(self) -> str:
        """`signed by key ab12cd34ef56`, or `unsigned`."""
        if self.key_id is None:
            return "unsigned"
        return f"signed by key {short(self.key_id)}{' (trusted)' if self.trusted else ''}"


OF_THE_SIGNATURE = frozenset({"signature", "envelope", "payload"})


def signer_text(signer: Signer | None) -> str:
    """Who is to sign, as a report says it: it is written before the signature, whose bytes cover it."""
    return str(Signature(None if signer is None else signer.key_id))


def write_statements(bundle: Bundle, key: HostKey | None) -> None:
    """State what a session came to, signed where the key is the one that it named. What is stated already is left.

    Args:
        bundle: Sealed, with verdict and report.
        key: This host's.
    """
    named = bundle.run().signer
    manifest = _manifest(bundle.root)
    if manifest is None or _stated(bundle.root):
        return
    for name, tree in statements(bundle, manifest).items():
        data = encoded(tree)
        write_atomically(bundle.root / name, data)
        if key is not None and named is not None and key.id == named.key_id:
            write_atomically(bundle.root / (name + DSSE), envelope(data, key))


def standing(bundle: Bundle) -> str:
    """What has become of the session's statements, now that verdict or report were derived again; for the user.

    `signed by key ab12cd34ef56`, `unsigned`, either with `, but stale: ...`, or `none: ...`.
    """
    manifest = _manifest(bundle.root)
    if manifest is None or not _stated(bundle.root):
        return f"none: {unstated(bundle) or 'they were taken away, or the session could not write them'}"
    try:
        signature = signature_of(bundle.root)
        found = check_statement(bundle.root, manifest)
    except BundleError as e:
        return f"unreadable: {e}"
    if not found:
        return str(signature)
    shown = next((m for m in found if m.field == "predicate.verdict.word"), found[0])
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    if any(m.field in OF_THE_SIGNATURE for m in found):
        return f"not what their signature covers: {shown}{more}"
    return f"{signature}, but stale: {shown}{more}; they stay as the session left them"


def unstated(bundle: Bundle) -> str | None:
    """Why a bundle rightly holds no statement at all; None where it holds one, or should."""
    run = bundle.run()
    if _stated(bundle.root):
        return None
    if ended_text(run.interrupted) == KILLED or _ended_without_verdict(bundle):
        return "the session was killed before it could state anything"
    if run.signer is None and not (bundle.root / FOLDER).is_dir():
        return "the bundle is of before there were any"
    return None


def _ended_without_verdict(bundle: Bundle) -> bool:
    """Sealed, and killed before it was judged: the next session entered its end into the ledger, with no verdict."""
    if not bundle.ledger_end_file.is_file():
        return False
    end = read_record(bundle.ledger_end_file, LedgerProof)
    own = end.entries.get(end.own)
    return own is not None and own.verdict is None


def _stated(root: Path) -> bool:
    return any(root.glob(f"{STATEMENTS}*"))


def encoded(tree: Json) -> bytes:
    """The bytes of a statement: they are what is signed."""
    return (json.dumps(tree, indent=1, ensure_ascii=False) + "\n").encode()


def envelope(payload: bytes, key: HostKey) -> bytes:
    """A DSSE envelope around a statement. Ed25519 gives the same bytes every time."""
    from securesystemslib.dsse import Envelope  # noqa: PLC0415  # heavy

    made = Envelope(payload, PAYLOAD_TYPE, {})
    made.sign(key.signer)
    return (json.dumps(made.to_dict(), indent=1) + "\n").encode()


def signature_of(root: Path, *, trusted: Sequence[SSlibKey] = ()) -> Signature:
    """Who signed; `check_statement` says whether it is so, and every signature holds.

    Raises:
        BundleError: run.json cannot be read.
    """
    named = Bundle(root).run().signer
    if named is None or not any(root.glob(f"statement*{DSSE}")):
        return Signature(None)
    return Signature(named.key_id, named.key_id in {key.keyid for key in trusted})


def check_statement(root: Path, manifest: bytes, *, trusted: Sequence[SSlibKey] = ()) -> list[Mismatch]:
    """Make the statements again and compare, field by field; check the signatures.

    Args:
        root: The bundle, with verdict.json and report/ as the reader got them.
        manifest: Bytes of SHA256SUMS, which the caller has compared with the files.
        trusted: Keys whose signature the reader takes; with none, any signature that the bundle names is one.

    Raises:
        BundleError: a record that the statements are made of cannot be read.
    """
    bundle = Bundle(root)
    named = bundle.run().signer
    found: list[Mismatch] = []
    if not trusted and unstated(bundle):
        return found
    for name, tree in statements(bundle, manifest).items():
        data = _read(root / name)
        if data is None:
            found.append(Mismatch(name, "file", "a statement", None))
            continue
        found += _differences(name, tree, data)
        found += _signature_faults(root, name, data, named, trusted)
    expected = {*statements(bundle, manifest)}
    extra = [p.name for p in root.glob("statement.*") if p.name.removesuffix(DSSE) not in expected]
    found += [Mismatch(name, "file", None, "a statement that this harness does not make") for name in sorted(extra)]
    if trusted and named is None:
        found.append(Mismatch("run.json", "signer", "unsigned", None))
    return found


def _signature_faults(
    root: Path, name: str, payload: bytes, named: Signer | None, trusted: Sequence[SSlibKey]
) -> Iterator[Mismatch]:
    file = name + DSSE
    data = _read(root / file)
    if named is None:
        if data is not None:
            yield Mismatch(file, "signature", "unsigned, says run.json", "an envelope")
        return
    if data is None:
        yield Mismatch(file, "signature", f"key {short(named.key_id)}", None)
        return
    try:
        signers = {key.keyid: key for key in (public_key(named.public), *trusted)}
        own = public_key(named.public).keyid
        ids, inside = _verified(data, list(signers.values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigError) as e:
        yield Mismatch(file, "envelope", "a DSSE envelope", f"{type(e).__name__}: {e}"[:SHOWN])
        return
    if own != named.key_id:
        yield Mismatch("run.json", "signer.key_id", named.key_id, own)
    if inside != payload:
        yield Mismatch(file, "payload", f"the bytes of {name}", "others")
    if named.key_id not in ids:
        yield Mismatch(file, "signature", f"key {short(named.key_id)}", "no signature of that key that holds")
    elif trusted and named.key_id not in {key.keyid for key in trusted}:
        yield Mismatch(file, "signature", f"key {short(named.key_id)}", "none of the keys that are trusted")


def _verified(data: bytes, keys: list[SSlibKey]) -> tuple[set[str], bytes]:
    """Ids of the keys whose signatures hold, and what is signed.

    Raises:
        ValueError: this is no envelope of a statement.
    """
    from securesystemslib.dsse import Envelope  # noqa: PLC0415  # heavy
    from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError  # noqa: PLC0415

    made = Envelope.from_dict(json.loads(data))
    if made.payload_type != PAYLOAD_TYPE:
        raise ValueError(f"its payload is {made.payload_type}")
    held: set[str] = set()
    for key in keys:
        try:
            held |= made.verify([key], 1).keys()
        except (VerificationError, UnverifiedSignatureError):
            continue
    return held, made.payload


def _differences(name: str, tree: Json, data: bytes) -> Iterator[Mismatch]:
    if data == encoded(tree):
        return
    try:
        said = dict(_leaves(json.loads(data)))
    except (ValueError, RecursionError) as e:
        yield Mismatch(name, "JSON", "a statement", str(e)[:SHOWN])
        return
    derived = dict(_leaves(json.loads(encoded(tree))))
    differing = [k for k in (*derived, *(k for k in said if k not in derived)) if said.get(k) != derived.get(k)]
    for key in differing:
        yield Mismatch(name, key, said.get(key), derived.get(key))
    if not differing:
        yield Mismatch(name, "bytes", "the same values", "written in another way")


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Values by their dotted path, as JSON."""
    below: Any = None
    if isinstance(tree, Mapping):
        below = tree.items()
    elif isinstance(tree, list):
        below = enumerate(tree)
    if not below:
        yield path or ".", json.dumps(tree)[:SHOWN]
        return
    for name, value in below:
        yield from _leaves(value, f"{path}.{name}" if path else str(name))


def _manifest(root: Path) -> bytes | None:
    return _read(root / MANIFEST)


def _read(path: Path) -> bytes | None:
    """A file that may be a stranger's, as long as it has a sensible size; None where it is missing."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        data = stream.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise BundleError(f"{path}: larger than {LIMIT_BYTES >> 20} MiB, which no statement is")
    return data
