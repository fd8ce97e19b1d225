"""The thermal gate, end to end: a card is warm before anything is measured on it, or the session says so."""

from __future__ import annotations

from pathlib import Path

from harness.fakes.nvml import Gpu
from harness.words import Word

from .gpus import GpuBench
from .sessions import Finished


class TestThermalGate:
    """Degrees over seconds since the launch began; the window is short, and so is the load."""

    SETTLED = ((0.0, 41), (0.5, 60))
    RISING = tuple((t / 10, 41 + t) for t in range(300))

    def session(self, folder: Path, heat: tuple[tuple[float, int], ...], **settings: object) -> Finished:
        bench = GpuBench(folder, [Gpu("GPU-0", heat=heat)])
        thermal = {"window_s": 4, "longest_s": 15, **settings}
        bench.settings += ["plan.burn_in=1", *(f"thermal.{name}={value}" for name, value in thermal.items())]
        return bench.run(arguments=("-k", "temperature or first_prompt"))

    def test_a_card_that_has_settled_passes_with_its_slope(self, tmp_path: Path) -> None:
        done = self.session(tmp_path, self.SETTLED, longest_s=60)
        row = done.row("thermal gate")
        assert row.word is Word.PASS, row
        assert row.control == "+0.0 °C/min at 60 °C"
        assert "s of load; the gate is below 1 °C/min over 4 s" in row.reason
        assert row.sources == ("launches/001-control-mtp1-burn-in/gpu.parquet temperature_c",)

    def test_one_that_still_warms_up_when_the_time_is_over_is_named(self, tmp_path: Path) -> None:
        row = self.session(tmp_path, self.RISING).row("thermal gate")
        assert row.word is Word.WARN, row
        assert "cancels a steady drift, not all of it" in row.reason

    def test_without_a_burn_in_nothing_is_shown(self, bench: GpuBench) -> None:
        row = bench.run(arguments=("-k", "first_prompt")).row("thermal gate")
        assert (row.word, row.control) == (Word.NOT_TESTED, None)
        assert "no burn-in launch is planned" in row.reason

    def test_the_gate_can_be_switched_off(self, tmp_path: Path) -> None:
        assert not self.session(tmp_path, self.RISING, longest_s=0).rows("thermal gate")
