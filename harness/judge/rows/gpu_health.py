"""What voids a measurement on GPUs: somebody else on them, throttling, unequal power limits. And Xids, which fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.judge.case import Case, Cell, completed, not_begun
from harness.judge.read import LaunchEvidence
from harness.judge.samples import GpuReadings
from harness.observe.gpu.nvml import THROTTLED, Field, Reason
from harness.records import GpuEvent, Row
from harness.words import Arm, Word

DESKTOP_MIB = 64.0
"""A desktop whose use of a GPU changes by more than this in a launch is no constant that could be subtracted."""

SLOW_GAP = 10
"""A gap of this many periods is a sampler that was not running for a moment."""

BLIND_MS = 5_000
"""A gap this long is a launch that was not watched."""

LASTING_NS = 1_500_000_000
"""A process that cannot be seen from here may be one of the server's that has just ended; one that stays is not."""


def rows(case: Case) -> Iterator[Row]:
    """One row each per cell; nothing for a profile of the CPU."""
    if not case.plan.profile.host.gpus:
        return
    for subject in (_watched, _foreign, _throttled, _power_limits, _errors, _returned):
        for cell in case.cells:
            yield subject(cell)


def _launches(cell: Cell) -> list[LaunchEvidence]:
    return [x for _, side in cell.arms() for x in side if not not_begun(x)]


def _row(cell: Cell, name: str, word: Word, reason: str, file: str, *, texts: Sequence[str | None]) -> Row:
    told = file.startswith("launch.json")  # that nobody watched stands there, too
    sources = tuple(f"launches/{x.folder.id}/{file}" for x in _launches(cell) if told or x.gpu.watch)
    return cell.row(name, word, reason, control=texts[0], candidate=texts[1], sources=sources)


def _watched(cell: Cell) -> Row:
    """Without samples the memory gate and every void rule would pass unseen."""
    faults, slow, texts = [], [], []
    for _, side in cell.arms():
        shown = []
        for launch in filter(completed, side):
            watch = launch.gpu.watch
            sampling = watch.sampling if watch else None
            if watch is None or watch.fault or sampling is None:
                why = watch.fault if watch and watch.fault else "no sampler ran to the end"
                faults.append(f"{launch.folder.id}: {why}")
                continue
            if sampling.achieved_period_ms is None or sampling.worst_gap_ms is None or sampling.cpu_pct is None:
                faults.append(f"{launch.folder.id}: fewer than two readings")
                continue
            shown.append(
                f"{sampling.achieved_period_ms:.1f}, gap {sampling.worst_gap_ms:.0f}, {sampling.cpu_pct:.1f} % CPU"
            )
            if sampling.worst_gap_ms > BLIND_MS:
                faults.append(f"{launch.folder.id}: {sampling.worst_gap_ms / 1000:.1f} s between two readings")
            elif sampling.worst_gap_ms > SLOW_GAP * 1000 / sampling.asked_hz:
                slow.append(f"{launch.folder.id}: {sampling.worst_gap_ms:.0f} ms between two readings")
        texts.append(" / ".join(shown) or None)
    if faults:
        word, reason = Word.VOID, f"the GPUs were not watched: {faults[0]}"
    elif not all(texts):
        word, reason = Word.NOT_TESTED, "an arm has no launch that was watched"
    elif slow:
        word, reason = Word.WARN, f"{slow[0]}; what fell and rose within that was not seen"
    else:
        word, reason = Word.PASS, "memory was read at its pace; figures: mean period and worst gap in ms, CPU share"
    return _row(cell, "GPU sampling", word, reason, "launch.json gpu.sampling", texts=texts)


def _foreign(cell: Cell) -> Row:
    """A process that computes on the lane's GPUs and is not the server's shares what is measured."""
    found = {arm: [f for x in side if not not_begun(x) for f in _strangers(x)] for arm, side in cell.arms()}
    blind = [f"{x.folder.id}: {why}" for x in _launches(cell) if (why := _blind(x))]
    moved = [f"{x.folder.id}: {why}" for x in _launches(cell) if (why := _desktop_moved(x))]
    texts = [", ".join(dict.fromkeys(found[arm])) or "none" for arm in Arm]
    if faults := [*found[Arm.CONTROL], *found[Arm.CANDIDATE]]:
        word, reason = Word.VOID, f"somebody else computed on the GPU: {faults[0]}"
    elif blind:
        word, reason = Word.NOT_TESTED, f"{blind[0]}; run the harness where it sees the host's processes"
    elif not _launches(cell):
        word, reason = Word.NOT_TESTED, "no launch was watched"
    elif moved:
        word, reason = Word.WARN, moved[0]
    else:
        word, reason = Word.PASS, f"no other process computed on the GPUs{_desktops(cell)}"
    return _row(cell, "foreign GPU processes", word, reason, "gpu.jsonl", texts=texts)


def _strangers(launch: LaunchEvidence) -> list[str]:
    """Processes that computed while the launch ran; unknown ones too, once the server's own were told apart."""
    begin, end = launch.mark_ns("process started"), launch.mark_ns("stopped")
    told_apart = any(p.owner == "own" for e in launch.gpu.events for p in e.processes or ())
    found: dict[int, str] = {}
    for event in launch.gpu.events:
        if begin is None or event.mono_ns < begin or (end is not None and event.mono_ns > end):
            continue
        for process in event.processes or ():
            unknown = process.owner == "unknown" and told_apart and _lasts(launch, event, process.pid)
            if process.compute and (process.owner == "foreign" or unknown):
                found.setdefault(process.pid, process.text)
    return list(found.values())


def _lasts(launch: LaunchEvidence, first: GpuEvent, pid: int) -> bool:
    """Whether a process stayed on its GPU for longer than the driver lists one that has ended."""
    end = launch.mark_ns("stopped")
    for event in launch.gpu.events:
        is_later = event.kind == "processes" and event.gpu == first.gpu and event.mono_ns > first.mono_ns
        if is_later and not any(p.pid == pid for p in event.processes or ()):
            end = event.mono_ns if end is None else min(end, event.mono_ns)
            break
    return end is None or end - first.mono_ns >= LASTING_NS


def _blind(launch: LaunchEvidence) -> str | None:
    """Why nobody can say whether others computed on the GPUs, or None."""
    if why := launch.gpu.unreadable("users"):
        return f"processes are not listed ({why})"
    processes = [p for e in launch.gpu.events for p in e.processes or ()]
    if completed(launch) and not any(p.owner == "own" for p in processes):
        return "none of the server's own processes was found on its GPUs, so nobody's can be told apart"
    return None


def _desktop_moved(launch: LaunchEvidence) -> str | None:
    sizes: dict[int, list[float]] = {}
    names: dict[int, str] = {}
    for event in launch.gpu.events:
        for p in event.processes or ():
            if not p.compute and p.used_bytes is not None:
                sizes.setdefault(p.pid, []).append(p.used_bytes / (1 << 20))
                names[p.pid] = p.text
    for pid, seen in sizes.items():
        if max(seen) - min(seen) > DESKTOP_MIB:
            span = f"{min(seen):,.0f} to {max(seen):,.0f} MiB"
            return (
                f"graphics memory was not constant: {names[pid]} used {span}, so free memory is not the server's alone"
            )
    return None


def _desktops(cell: Cell) -> str:
    names = {
        p.text: None
        for x in _launches(cell)
        for e in x.gpu.events
        for p in e.processes or ()
        if not p.compute and p.owner != "own"
    }
    return f"; graphics use was constant and is subtracted from residency: {', '.join(names)}" if names else ""


def _served(launch: LaunchEvidence, samples: Sequence[tuple[int, int]]) -> list[int]:
    """Values between readiness and the stop."""
    ready, stop = launch.ready_ns, launch.mark_ns("stop asked")
    return [v for t, v in samples if ready is not None and t >= ready and (stop is None or t <= stop)]


def reasons_text(bits: int) -> str:
    """`hw thermal, power cap`."""
    return ", ".join(sorted((r.name or "").lower().replace("_", " ") for r in Reason if r & bits))


def _throttled(cell: Cell) -> Row:
    """Heat and failing supplies void; a card at its power cap works as it is meant to, and that is shown."""
    faults, texts = [], []
    readable = True
    for _, side in cell.arms():
        shown: Counter[Reason] = Counter()
        total = 0
        for launch in (x for x in side if not not_begun(x) and x.ready_ns is not None):
            for uuid, gpu in launch.gpu.gpus.items():
                values = _reasons(launch, gpu)
                readable = readable and bool(values)
                total += len(values)
                shown.update(r for v in values for r in Reason if r & v and r is not Reason.IDLE)
                if bad := [v for v in values if v & THROTTLED]:
                    share = f"in {len(bad)} of {len(values)} readings"
                    faults.append(
                        f"{launch.folder.id}: {uuid} was throttled ({reasons_text(bad[0] & THROTTLED)}) {share}"
                    )
        names = [f"{reasons_text(r)} {100 * n / total:.0f} %" for r, n in sorted(shown.items())]
        texts.append((", ".join(names) or "none") if total else None)
    if faults:
        word, reason = Word.VOID, faults[0]
    elif not all(texts) or not readable:
        word, reason = Word.NOT_TESTED, _unread(cell, Field.CLOCK_REASONS)
    else:
        word = Word.PASS
        reason = "no slowdown by heat or power brake; shares are of readings while serving, a power cap voids nothing"
    return _row(cell, "GPU throttling", word, reason, "gpu.parquet clock_reasons", texts=texts)


def _reasons(launch: LaunchEvidence, gpu: GpuReadings) -> list[int]:
    """Clock reasons while serving; of a course shorter than the period, the readings around it."""
    samples = gpu.states.get(Field.CLOCK_REASONS, ())
    inside = _served(launch, samples)
    begin = launch.mark_ns("process started")
    return inside or [v for t, v in samples if begin is not None and t >= begin]


def _power_limits(cell: Cell) -> Row:
    """Unequal limits are two machines."""
    texts, faults = [], []
    sides: list[list[set[int]]] = []
    for _, side in cell.arms():
        limits: list[set[int]] = []
        for launch in (x for x in side if not not_begun(x)):
            for gpu, (uuid, readings) in enumerate(launch.gpu.gpus.items()):
                seen = {v for _, v in _while_running(launch, readings.states.get(Field.POWER_LIMIT_MW, ()))}
                limits += [set() for _ in range(gpu + 1 - len(limits))]
                limits[gpu] |= seen
                if len(seen) > 1:
                    faults.append(f"{launch.folder.id}: the limit of {uuid} changed: {_watts(seen)}")
        sides.append(limits)
        texts.append(" | ".join(map(_watts, limits)) if limits and all(limits) else None)
    if all(texts) and sides[0] != sides[1]:
        faults.insert(0, f"the arms ran at unequal power limits: control {texts[0]}, candidate {texts[1]}")
    if faults:
        word, reason = Word.VOID, faults[0]
    elif not all(texts):
        word, reason = Word.NOT_TESTED, _unread(cell, Field.POWER_LIMIT_MW)
    else:
        word, reason = Word.PASS, "enforced power limit of each GPU, the same in every launch of both arms"
    return _row(cell, "GPU power limits", word, reason, "gpu.parquet power_limit_mw", texts=texts)


def _while_running(launch: LaunchEvidence, samples: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    begin, end = launch.mark_ns("process started"), launch.mark_ns("stopped")
    return [(t, v) for t, v in samples if begin is not None and t >= begin and (end is None or t <= end)]


def _watts(limits: set[int]) -> str:
    return " to ".join(f"{v / 1000:g} W" for v in sorted(limits)) or "unknown"


def _errors(cell: Cell) -> Row:
    """Xids, uncorrectable ECC errors, a GPU off the bus: the candidate's fail, the control's void the cell."""
    found = {arm: [e for x in side if not not_begun(x) for e in gpu_errors(x)] for arm, side in cell.arms()}
    unread = [why for x in _launches(cell) if (why := x.gpu.unreadable("xids"))]
    texts = [", ".join(found[arm]) or "none" for arm in Arm]
    if found[Arm.CONTROL]:
        word, reason = Word.VOID, f"in the control: {found[Arm.CONTROL][0]}"
    elif found[Arm.CANDIDATE]:
        word, reason = Word.FAIL, found[Arm.CANDIDATE][0]
    elif not _launches(cell) or unread:
        word = Word.NOT_TESTED
        reason = f"Xids are not readable ({unread[0]}); no ECC error was counted" if unread else "no launch was watched"
    else:
        word, reason = Word.PASS, f"no Xid, no GPU lost, {_ecc(cell)}"
    return _row(cell, "GPU errors", word, reason, "gpu.jsonl", texts=texts)


def gpu_errors(launch: LaunchEvidence) -> list[str]:
    """What broke on the launch's GPUs."""
    found = []
    for event in launch.gpu.events:
        if event.kind == "xid":
            found.append(f"{launch.folder.id}: Xid {event.code} on {event.gpu} in {launch.step_at(event.mono_ns)}")
        elif event.kind == "unreadable" and event.reading == "gpu":
            found.append(f"{launch.folder.id}: {event.gpu} was lost in {launch.step_at(event.mono_ns)}")
    for uuid, gpu in launch.gpu.gpus.items():
        counts = [v for _, v in gpu.states.get(Field.ECC_UNCORRECTED, ())]
        if counts and max(counts) > counts[0]:
            found.append(f"{launch.folder.id}: {max(counts) - counts[0]} uncorrectable ECC error(s) on {uuid}")
    return found


def _ecc(cell: Cell) -> str:
    counted = all(Field.ECC_UNCORRECTED in g.states for x in _launches(cell) for g in x.gpu.gpus.values())
    return "no uncorrectable ECC error" if counted else "ECC errors are not counted by these GPUs"


def _returned(cell: Cell) -> Row:
    """Memory that outlives its server is somebody's; the next launch of the lane does not start on top of it."""
    late = [
        f"{x.folder.id}: {x.gpu.watch.holders}"
        for x in _launches(cell)
        if x.gpu.watch and x.gpu.watch.returned is False
    ]
    known = [x.gpu.watch for x in _launches(cell) if x.gpu.watch and x.gpu.watch.returned is not None]
    texts = [
        " / ".join(
            "-" if x.gpu.watch is None or x.gpu.watch.return_s is None else f"{x.gpu.watch.return_s:.1f}" for x in side
        )
        or None
        for _, side in cell.arms()
    ]
    if late:
        word, reason = Word.WARN, f"memory was not back when the wait for it was over: {late[0]}"
    elif not known:
        word, reason = Word.NOT_TESTED, "no launch's GPUs could be read before and after it"
    else:
        word, reason = (
            Word.PASS,
            "memory and processes were again as before the launch, this many seconds after its end",
        )
    return _row(cell, "GPU memory back after exit", word, reason, "launch.json gpu.after", texts=texts)


def _unread(cell: Cell, field: Field) -> str:
    for launch in _launches(cell):
        if why := launch.gpu.unreadable(field):
            return f"{launch.folder.id}: not readable: {why}"
    return "an arm has no reading of it"
