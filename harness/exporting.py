"""`qualify export`: a bundle made small and free of private words, of which the judge says the same."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import BundleError
from harness.evidence.bundle import Bundle, write_record
from harness.evidence.exported import ENDING, EXPORT_SUMS, is_export, laid_out, note
from harness.evidence.manifest import root_hash
from harness.evidence.originals import ORIGINALS, ORIGINALS_SCHEMA, OriginalFile, Originals
from harness.evidence.packing import FORMATS, compress, pack, sums_text
from harness.evidence.redaction.here import known_here
from harness.evidence.redaction.kinds import CREDENTIALS, Kind
from harness.evidence.redaction.parquet import parquet_strings
from harness.evidence.redaction.redactor import Redactor, pieces
from harness.evidence.staging import is_pinned, stage
from harness.records import Row, Verdict

if TYPE_CHECKING:
    from harness.judge.case import Case

COMPRESSED_FROM_BYTES = 4096
"""Smaller files, and the records at the top, stay as they are: people read them."""
PACKED = frozenset({".parquet", ".gz", ".zst", ".xz", ".zip", ".bz2", ".png"})
"""Compressed already."""

ABOUT = (
    "This bundle was exported: private words were replaced, each by a placeholder of the same length. A file with "
    "`redactions` is not its original's bytes, so its original's hash can only be checked by whoever holds the "
    "original; all others are. verdict.json and report/ were derived again from the files here. What was removed "
    "and is short or easily guessed (a name, a private address) can be confirmed by trying guesses against the "
    "original's hash; a token cannot. Token ids of outputs are here as they were: with the model's tokenizer they "
    "are its text again, also where that was redacted. Rules can only find what they know: read it before you share it."
)


@dataclass(frozen=True)
class Exported:
    """What `qualify export` came to."""

    output: Path
    bytes: int
    files: int
    original_bytes: int
    removed: Mapping[Kind, int]
    """Places, by kind."""
    distinct: Mapping[Kind, int]
    """Different things, by kind."""
    opaque: tuple[str, ...]
    """Files into which no rule can look."""
    note: str


def export(bundle: Bundle, output: Path | None, form: str = "tar.zst", words: Sequence[str] = ()) -> Exported:
    """Export a bundle.

    Args:
        bundle: It is not changed.
        output: What to write; `SESSION.export.tar.zst` in the current folder without it.
        form: One of `FORMATS`.
        words: More to be removed, whatever the case of its letters.

    Raises:
        BundleError: the bundle cannot be exported without a private word or without another verdict.
        ConfigError: a word is too short.
        SetupFailure: the output cannot be written.
    """
    if is_export(bundle.root):
        raise BundleError(f"{bundle.root} is an export already; pass it on as it is")
    session = bundle.plan().session
    output = output or Path(f"{session}.export{'' if form == 'dir' else f'.{form}'}")
    if output.exists():
        raise BundleError(f"{output} is there already; remove it, or name another one with -o")
    redactor = Redactor(words, known_here())
    with tempfile.TemporaryDirectory(prefix="qualify-export-") as folder:
        work, packed = Path(folder) / "work", Path(folder) / "packed"
        work.mkdir()
        staged = stage(bundle.root, work, redactor)
        originals = Originals(
            session=session, root_sha256=root_hash(bundle.root), note=ABOUT, files=_in_form(staged.files)
        )
        _write_originals(work, originals)
        if bundle.verdict_file.is_file():
            originals = _derive_again(bundle, Bundle(work), originals, redactor)
        _refuse_leftovers(work, redactor)
        _compress(work, packed, originals)
        (packed / EXPORT_SUMS).write_text(sums_text(packed), "utf-8")  # no evidence of this session: nobody notes it
        _prove(packed, Path(folder) / "again", originals)
        pack(packed, output, form, session)
    size = sum(p.stat().st_size for p in output.rglob("*") if p.is_file()) if output.is_dir() else output.stat().st_size
    return Exported(
        output=output,
        bytes=size,
        files=len(originals.files),
        original_bytes=sum(entry.size for entry in originals.files.values()),
        removed={kind: staged.removed[kind] for kind in sorted(staged.removed)},
        distinct=redactor.distinct(),
        opaque=tuple(staged.opaque),
        note=note(originals),
    )


def export_lines(exported: Exported) -> list[str]:
    """What a user is told: what went by kind and count, and what nobody can promise."""
    sizes = f"{exported.bytes / 1e6:.2f} MB, from {exported.files} files of {exported.original_bytes / 1e6:.2f} MB"
    lines = [f"{exported.output}: {sizes}"]
    for kind, places in exported.removed.items():
        lines.append(f"removed: {kind}, {exported.distinct[kind]} different in {places:,} places")
    if not exported.removed:
        lines.append("removed: nothing, no rule found anything")
    lines += [f"not looked into, since it is compressed: {name}" for name in exported.opaque]
    lines.append(exported.note)
    lines.append(
        "Rules can only find what they know: look into it before you share it; --redact WORD removes more. Token ids "
        "of outputs are kept, and give their text to whoever has the tokenizer."
    )
    return lines


def unpacked(root: Path) -> Path:
    """An export's folder laid out as a bundle, beside it.

    Raises:
        BundleError: it is not as it says, or something else lies there.
    """
    into = root.with_name(f"{root.name}.unpacked")
    if into.exists():
        if (into / ORIGINALS).is_file() and (into / ORIGINALS).read_bytes() == (root / ORIGINALS).read_bytes():
            return into
        raise BundleError(f"{into} is in the way: {root.name} is an export, and is laid out there; remove it")
    with tempfile.TemporaryDirectory(prefix=f".{into.name}.", dir=root.parent) as folder:
        laid, mismatches = laid_out(root, Path(folder) / "bundle")
        if mismatches:
            raise BundleError(f"{root} is not as it says: {mismatches[0]}; `qualify verify` names all")
        laid.rename(into)
    return into


def _in_form(files: Mapping[str, OriginalFile]) -> dict[str, OriginalFile]:
    return {
        name: entry.model_copy(update={"form": "zst"}) if _is_compressed(name, entry) else entry
        for name, entry in files.items()
    }


def _is_compressed(name: str, entry: OriginalFile) -> bool:
    return (
        not entry.derived and "/" in name and entry.size >= COMPRESSED_FROM_BYTES and Path(name).suffix not in PACKED
    ) or Path(name).suffix == ".log"


def _derive_again(bundle: Bundle, work: Bundle, originals: Originals, redactor: Redactor) -> Originals:
    """Write verdict and report from the redacted evidence; they must say what the original's verdict says."""
    from harness.judge.case import read_case  # noqa: PLC0415  # heavy, like the next two
    from harness.judge.verdict import judge_case  # noqa: PLC0415
    from harness.report import write_report  # noqa: PLC0415

    said = Verdict.model_validate_json(redactor.redacted(bundle.verdict_file.read_bytes()))
    case = read_case(work)
    found = judge_case(case)
    cells = {
        new.cell_sha256: old.cell_sha256
        for old, new in zip(said.rows, found.rows, strict=False)
        if old.cell_sha256 and new.cell_sha256 and old.cell_sha256 != new.cell_sha256
    }
    if case.plan.history or case.plan.night:
        cells |= _planned_cells(read_case(bundle), case)
    if cells:
        originals = originals.model_copy(update={"cells": cells})
        _write_originals(work.root, originals)
        case = read_case(work)
        found = judge_case(case)
    _refuse_another_verdict(bundle, said, found)
    write_record(work.verdict_file, found)
    if bundle.report_dir.is_dir():
        write_report(work, found, case)
    return originals


def _planned_cells(original: Case, redacted: Case) -> dict[str, str]:
    """Identities by which history was asked: as they follow from the redacted evidence -> from the original."""
    from harness.judge.cell_identity import planned_sha256  # noqa: PLC0415

    return {
        planned_sha256(redacted, new, tokens): planned_sha256(original, old, tokens)
        for old, new in zip(original.cells, redacted.cells, strict=True)
        for tokens in (None, *redacted.contexts)
    }


def _refuse_another_verdict(bundle: Bundle, said: Verdict, found: Verdict) -> None:
    if said == found:
        return
    fields = [f for f in type(said).model_fields if f != "rows" and getattr(said, f) != getattr(found, f)]
    rows = [_row_difference(n, a, b) for n, (a, b) in enumerate(zip(said.rows, found.rows, strict=False)) if a != b]
    where = [*fields, *rows] or [f"{len(said.rows)} rows, of the redacted evidence {len(found.rows)}"]
    raise BundleError(
        f"{bundle.verdict_file}: the redacted evidence gives another verdict than this one ({where[0]}). Where this "
        "harness is not the one that judged, run `qualify judge` first; otherwise a word that was removed is one that "
        "the judge needs. Nothing was exported"
    )


def _row_difference(number: int, said: Row, found: Row) -> str:
    field = next(f for f in Row.model_fields if getattr(said, f) != getattr(found, f))
    return f"rows.{number}.{field}, {said.name}"


def _refuse_leftovers(work: Path, redactor: Redactor) -> None:
    """Search every byte that will be shared for all that was learnt."""
    for path in sorted(p for p in work.rglob("*") if p.is_file()):
        name = path.relative_to(work).as_posix()
        private = CREDENTIALS if is_pinned(name) else frozenset(Kind)
        with path.open("rb") as stream:
            texts = parquet_strings(path) if path.suffix == ".parquet" else pieces(stream)
            for text in texts:
                if left := [one for one in redactor.left(text) if one.kind in private]:
                    raise BundleError(f"{name}: a {left[0].kind} would still be in it. Nothing was exported")


def _compress(work: Path, packed: Path, originals: Originals) -> None:
    for path in sorted(p for p in work.rglob("*") if p.is_file()):
        name = path.relative_to(work).as_posix()
        entry = originals.files.get(name)
        is_zst = entry is not None and entry.form == "zst"
        target = packed / (f"{name}{ENDING}" if is_zst else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_zst:
            compress(path, target)
        else:
            path.rename(target)


def _prove(packed: Path, again: Path, originals: Originals) -> None:
    """What was packed is read as a reviewer will read it, and must name the original's root hash."""
    _, mismatches = laid_out(packed, again)
    if mismatches or root_hash(again) != originals.root_sha256:
        raise BundleError(f"the export does not read back as the bundle ({mismatches[:1]}); it was not written")


def _write_originals(work: Path, originals: Originals) -> None:
    tree = {"schema_version": ORIGINALS_SCHEMA, **originals.model_dump(mode="json", exclude_defaults=True)}
    (work / ORIGINALS).write_text(json.dumps(tree, indent=1, ensure_ascii=False) + "\n", "utf-8")


__all__ = ["FORMATS", "Exported", "export", "export_lines", "unpacked"]
