"""The index as lines for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from harness.errors import ConfigError
from harness.history.anchors import Anchor
from harness.history.calibration import FEWEST_ROWS, calibration_of
from harness.history.index import Index

NO_ID = "unnamed"
"""A host whose bundles hold no id: they are listed, and never pooled."""


def list_lines(index: Index, anchors: Sequence[Anchor], profile: str | None = None) -> Iterator[str]:
    """Hosts with their right to judge speed, anchors with their reasons, then sessions, newest last."""
    for host in index.sql.execute("SELECT * FROM hosts ORDER BY id").fetchall():
        found = calibration_of(index, {"host_id": host["host_id"], "class_sha256": host["class_sha256"]})
        yield f"host {_short(host['host_id'])}  {_class(host['class'])}"
        if found is None:
            yield "  does not say which host it is: never pooled"
        elif found.trusted:
            few = f", too few to tell below {FEWEST_ROWS}" if found.rows < FEWEST_ROWS else ""
            yield f"  judges speed: false alarms: {found.counted}{few}"
        else:
            yield f"  REFUSED since {found.lost_in} ({found.lost_at}): since then {found.counted}"
    current = {a.profile: a.number for a in anchors}
    for anchor in anchors:
        state = "anchor" if current[anchor.profile] == anchor.number else "former"
        yield (
            f"{state} {anchor.number}  {anchor.profile}: {anchor.stack} of {anchor.session}, "
            f"by {anchor.who} {anchor.when}: {anchor.reason}"
        )
    sessions = index.sql.execute(
        "SELECT s.*, h.host_id FROM sessions s JOIN hosts h ON h.id = s.host WHERE ? IS NULL OR profile = ? "
        "ORDER BY started_wall, session",
        (profile, profile),
    ).fetchall()
    for s in sessions:
        night = f" night {s['night']}" if s["night"] else ""
        yield (
            f"{s['started_wall'][:16]}  {s['session']}  {s['kind']}{night}  {s['verdict']}  "
            f"host {_short(s['host_id'])}  root {s['root_sha256'][:12]}"
        )
    yield f"{len(sessions)} sessions"


def show_lines(index: Index, session: str) -> Iterator[str]:
    """Everything that is kept of one session.

    Raises:
        ConfigError: it is not in the index, or the name stands for several.
    """
    found = index.sql.execute(
        "SELECT s.*, h.host_id, h.class FROM sessions s JOIN hosts h ON h.id = s.host "
        "WHERE session = ? OR root_sha256 LIKE ? || '%' ORDER BY session",
        (session, session),
    ).fetchall()
    if len(found) != 1:
        what = "is not in the index; `qualify history import` takes bundles in" if not found else "stands for several"
        raise ConfigError(f"session or root hash `{session}` {what}")
    s = found[0]
    yield f"session    {s['session']}, {s['kind']}, {s['verdict']} (exit code {s['exit_code']})"
    yield f"root       {s['root_sha256']}"
    yield f"place      {s['place']}"
    smoke = ", smoke" if s["smoke"] else ""
    yield f"profile    {s['profile']}{smoke}, seed {s['seed']}, measurement {s['measurement']}"
    yield f"host       {_short(s['host_id'])}  {_class(s['class'])}"
    yield f"ran        {s['started_wall']} to {s['ended_wall'] or 'unknown'}{_interrupted(s['interrupted'])}"
    dirty = " (dirty)" if s["harness_dirty"] else ""
    yield f"harness    {s['harness_version']} {s['harness_commit'] or 'no checkout'}{dirty}"
    if s["night"]:
        yield f"night      {s['night']}, anchor {(s['anchor_sha256'] or 'none: the control of the profile')[:32]}"
    yield from _arms(index, s["root_sha256"])
    for m in index.sql.execute("SELECT * FROM metrics WHERE root_sha256 = ? ORDER BY id", (s["root_sha256"],)):
        ratios = index.sql.execute("SELECT log_ratio FROM ratios WHERE metric = ? ORDER BY place", (m["id"],))
        place = " ".join(str(m[k]) for k in ("mode", "warmup", "proven", "context_tokens") if m[k] is not None)
        sd = "" if m["own_sd"] is None else f", sd {100 * m['own_sd']:.2g} %"
        primary = "primary, " if m["is_primary"] else ""
        yield (
            f"  {place} {m['name']}: {primary}{m['word']}, {100 * m['mean']:+.2f} % of {m['pairs']}{sd} "
            f"({', '.join(f'{100 * r[0]:+.2f}' for r in ratios)})"
        )


def _arms(index: Index, root: str) -> Iterator[str]:
    for arm in index.sql.execute("SELECT * FROM arms WHERE root_sha256 = ? ORDER BY arm DESC", (root,)):
        image = f", image {arm['image_id'][:19]}" if arm["image_id"] else ""
        lock = f", lock {arm['lock_sha256'][:12]}" if arm["lock_sha256"] else ""
        yield f"{arm['arm']:10} {arm['stack']}, vLLM {arm['engine_version']}{image}{lock}"
        heads = index.sql.execute(
            "SELECT * FROM heads WHERE root_sha256 = ? AND arm = ? ORDER BY component, place", (root, arm["arm"])
        )
        for head in heads:
            yield f"           {head['component']} #{head['pr']} {head['head'] or 'no head'} {head['disposition']}"


def _class(text: str) -> str:
    found = json.loads(text)
    gpus = ", ".join(found["gpus"]) or "no GPU"
    return f"{found['processor']}, {found['cores']} cores, {found['memory_gib']} GiB, {gpus}, {found['system']}"


def _short(host_id: str | None) -> str:
    return host_id[:8] if host_id else NO_ID


def _interrupted(why: str | None) -> str:
    return f", interrupted: {why}" if why else ""
