"""The page in a real headless browser: it asks for nothing, strangers' text stays text, everybody can read it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge
from harness.records import Verdict
from harness.report import write_report
from harness.report.decomposition import Part, Split
from harness.report.effect_plots import decomposition
from tests.judge.bundles import TRACED, Session
from tests.report.browser import CHROMIUM, DESKTOP, PHONE, Browser, browser
from tests.report.bundles import make_bundle
from tests.report.conftest import CANDIDATE
from tests.report.writing import Faults

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

ATTACKS = (
    "</pre></td><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<svg onload=\"document.title='owned'\"><style>*{display:none}</style>",
    "]]> --> </title></style></script> {{ 7 * 7 }} {% for x in y %} ${7*7}",
    "'\" onmouseover=\"document.title='owned'\" autofocus onfocus=\"document.title='owned'\"",
    "javascript:document.title='owned' \u202egnp.exe \x1b[31mred \x07\x00\x9b",
    "x" * 1_000_000,
)
"""What a server may write into its log to get at whoever reads the report."""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def plain(sound: tuple[Case, Verdict]) -> Path:
    """The page of a session without a fault."""
    case, verdict = sound
    return write_report(case.bundle, verdict, case)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a session whose candidate attacks it through its reason and its log's last lines."""
    text = "\n".join(ATTACKS)
    bundle = make_bundle(
        tmp_path_factory.mktemp("attacked") / "bundle", Faults(failed=CANDIDATE, reason=text, log_tail=text)
    )
    return write_report(bundle, judge(bundle), read_case(bundle))


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a session whose candidate attacks it through the names of late kernels and their constants."""
    served = tuple((attack, {attack[:40]: attack}) for attack in ATTACKS[:5])
    session = Session(tmp_path_factory.mktemp("named"), TRACED).both(armed=True).candidate(served=served)
    bundle = session.build()
    return write_report(bundle, judge(bundle), read_case(bundle))


def cut_off(tab: Browser) -> list[str]:
    """Texts of pictures that stick out of theirs by more than a pixel."""
    found = tab.evaluate(
        """[...document.querySelectorAll('svg')].flatMap(picture => {
            const room = picture.getBoundingClientRect();
            return [...picture.querySelectorAll('text')].filter(text => {
                const box = text.getBoundingClientRect();
                return box.left < room.left - 1 || box.right > room.right + 1
                    || box.top < room.top - 1 || box.bottom > room.bottom + 1;
            }).map(text => text.textContent);
        })"""
    )
    assert isinstance(found, list)
    return found


class TestPictures:
    def test_no_text_is_cut_off_at_the_edge(self, tab: Browser, plain: Path) -> None:
        tab.open(plain)
        assert tab.evaluate("document.querySelectorAll('svg text').length") > 20
        assert cut_off(tab) == []

    @pytest.mark.parametrize(("pct", "fits"), [(199.9, True), (1e12, False)])
    def test_nor_is_that_of_a_difference_of_three_digits(
        self, tab: Browser, tmp_path: Path, pct: float, fits: bool
    ) -> None:
        part = Part(1.0, 1.0, math.log1p(pct / 100))
        split = Split("mtp1", "engine", "warm", 32_768, part, part, part, 1, ())
        page = tmp_path / "split.html"
        page.write_text(f"<!doctype html><body>{decomposition([split])}", "utf-8")
        tab.open(page)
        assert (cut_off(tab) == []) is fits, "and what does not fit would be found"


class TestAsksForNothing:
    @pytest.mark.parametrize("name", ["plain", "attacked", "named"])
    def test_no_request_but_for_itself_and_no_violation(
        self, tab: Browser, name: str, request: pytest.FixtureRequest
    ) -> None:
        page: Path = request.getfixturevalue(name)
        tab.open(page)
        asked = [e["request"]["url"] for e in tab.told("Network.requestWillBeSent")]
        assert asked == [page.resolve().as_uri()]
        assert tab.told("Log.entryAdded") == []
        assert tab.told("Audits.issueAdded") == []
        assert tab.told("Runtime.exceptionThrown") == []

    def test_what_the_policy_forbids_is_seen_to_be_forbidden(self, tab: Browser, plain: Path, tmp_path: Path) -> None:
        """The negative: a page with a script, a picture and a style of somebody else's."""
        foreign = "<script>document.title='owned'</script><img src='http://127.0.0.1:9/x.png'>"
        changed = tmp_path / "changed.html"
        changed.write_text(plain.read_text("utf-8").replace("<main>", f"<main>{foreign}"), "utf-8")
        tab.open(changed)
        assert tab.evaluate("document.title") != "owned"
        tab.until(lambda: len(tab.told("Audits.issueAdded")) >= 2)
        blocked = [e for e in tab.told("Network.loadingFailed") if e.get("blockedReason") == "csp"]
        assert blocked or len(tab.told("Network.requestWillBeSent")) == 1


class TestStrangersText:
    @pytest.mark.parametrize("name", ["attacked", "named"])
    def test_no_script_of_theirs_runs_and_no_element_of_theirs_exists(
        self, tab: Browser, name: str, request: pytest.FixtureRequest
    ) -> None:
        tab.open(request.getfixturevalue(name))
        assert tab.evaluate("document.title").startswith("FAIL: ")
        assert tab.evaluate("document.scripts.length") == 1
        for theirs in ("img, iframe, object, embed, svg svg", "[onload], [onerror]", "[onmouseover], [onfocus]"):
            assert tab.count(theirs) == 0
        assert tab.evaluate("document.styleSheets.length") == 1

    def test_it_is_shown_as_it_was_written(self, tab: Browser, attacked: Path) -> None:
        tab.open(attacked)
        shown = tab.evaluate("document.querySelector('.failure pre').textContent")
        for text in ATTACKS[:5]:
            assert text in shown
        assert "characters left out …" in shown
        assert attacked.stat().st_size < 1_000_000, "though the attack's last line alone is as long"
        assert "\u202e" not in shown
        assert "\x1b" not in shown

    def test_it_does_not_push_the_page_out_of_its_width(self, tab: Browser, attacked: Path) -> None:
        tab.open(attacked, PHONE)
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]

    def test_names_of_kernels_are_text_in_the_table_and_in_its_filter(self, tab: Browser, named: Path) -> None:
        tab.open(named)
        names = tab.evaluate("Array.from(document.querySelectorAll('.ledger .name')).map(e => e.dataset.value)")
        for attack in ATTACKS[:5]:
            assert attack in names
        assert tab.count("#ledger-filter select") == 4
        assert tab.count("#ledger-filter :not(label, select, option, input, output)") == 0


class TestReading:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("name", ["plain", "attacked", "named"])
    def test_every_text_has_contrast(
        self, tab: Browser, scheme: str, name: str, request: pytest.FixtureRequest
    ) -> None:
        tab.open(request.getfixturevalue(name), scheme=scheme)
        tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        script = (Path(__file__).parent / "contrast.js").read_text("utf-8")
        assert tab.evaluate(script) == []

    def test_a_pale_text_would_be_found(self, tab: Browser, plain: Path) -> None:
        tab.open(plain)
        tab.evaluate("document.documentElement.style.setProperty('--faint', '#9aa4b2')")
        found = tab.evaluate((Path(__file__).parent / "contrast.js").read_text("utf-8"))
        assert any("CAPTION" in line for line in found)
        assert any(" text " in line for line in found), "in a picture too"

    def test_the_schemes_differ(self, tab: Browser, plain: Path) -> None:
        colours = []
        for scheme in ("light", "dark"):
            tab.open(plain, scheme=scheme)
            colours.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert len(set(colours)) == 2

    @pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
    def test_only_marked_regions_scroll_sideways(self, tab: Browser, plain: Path, size: tuple[int, int]) -> None:
        tab.open(plain, size)
        assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
        unreachable = "Array.from(document.querySelectorAll('.scroll')).filter(e => e.tabIndex !== 0).length"
        assert tab.evaluate(unreachable) == 0

    def test_the_verdict_is_in_the_first_screen_of_a_phone(self, tab: Browser, plain: Path) -> None:
        tab.open(plain, PHONE)
        assert tab.evaluate("document.querySelector('h1').getBoundingClientRect().bottom") < PHONE[1] / 4
        assert tab.evaluate("document.querySelector('.why').getBoundingClientRect().bottom") < PHONE[1]

    def test_print_is_light_and_shows_what_is_folded(self, tab: Browser, plain: Path) -> None:
        tab.open(plain, scheme="dark", media="print")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.evaluate("document.querySelector('#rows details.printed').getBoundingClientRect().height") > 400
        assert tab.pdf().startswith(b"%PDF")

    def test_the_first_stop_of_the_keyboard_skips_to_the_rows(self, tab: Browser, plain: Path) -> None:
        tab.open(plain)
        for kind in ("rawKeyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        assert tab.evaluate("document.activeElement.textContent") == "Skip to the rows"


class TestLinks:
    def test_a_link_to_a_folded_row_unfolds_it(self, tab: Browser, plain: Path) -> None:
        tab.open(plain)
        assert tab.evaluate("document.querySelector('#rows details').open") is False
        script = "document.querySelector('#integrity a[href^=\"#row-\"]').click()"
        tab.call("Runtime.evaluate", expression=script, userGesture=True)
        assert tab.evaluate("document.querySelector('#rows details').open") is True


class TestFilter:
    def test_lines_are_hidden_and_counted(self, tab: Browser, named: Path) -> None:
        tab.open(named)
        lines = "Array.from(document.querySelectorAll('table.ledger[data-filter] tbody tr'))"
        every = tab.evaluate(f"{lines}.length")
        assert every >= 5
        ask = "var i = document.querySelector('#ledger-filter input'); i.value = 'ONERROR'; "
        tab.evaluate(f"{ask} i.dispatchEvent(new Event('input', {{bubbles: true}}))")
        shown = tab.evaluate(f"{lines}.filter(line => line.offsetHeight).length")
        assert 0 < shown < every
        assert (
            tab.evaluate("document.querySelector('#ledger-filter output').textContent") == f"{shown} of {every} lines"
        )

    def test_without_a_script_the_table_is_whole(self, tab: Browser, named: Path) -> None:
        tab.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            tab.open(named)
            lines = "document.querySelectorAll('table.ledger[data-filter] tbody tr')"
            assert tab.evaluate("document.getElementById('ledger-filter').hidden") is True
            assert tab.evaluate(f"Array.from({lines}).every(line => line.offsetHeight > 0)") is True
        finally:
            tab.call("Emulation.setScriptExecutionDisabled", value=False)
