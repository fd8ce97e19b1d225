"""The table of what is private and how it shows. Rules can only find what they know.

Patterns find bytes of a bundle and text of a report alike, so they are ASCII; in each, the group `it` is what
goes, and the rest is what it is known by.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from harness.evidence.redaction.kinds import (
    PLACEHOLDER,
    Kind,
    is_network_address,
    is_no_constant,
    is_value,
    names_somebody,
)

BEFORE = 60
"""Characters before a match that `not_after` and `only_after` are held against."""


@dataclass(frozen=True)
class Rule:
    """One way in which something private shows."""

    kind: Kind
    pattern: str
    needles: tuple[str, ...] = ()
    """Where none of these stands there is no match; to be quick. () = look always."""
    keep: str = ""
    """What stays, though the pattern finds it: matched against the whole of it, whatever its case."""
    not_after: str = ""
    """What stands before that makes it something else."""
    only_after: str = ""
    """What must stand before; quicker than as a part of the pattern where that begins with any letter."""
    really: Callable[[str], bool] = is_value
    """The last word, where a pattern cannot have it."""
    learnt: bool = True
    """What it found is looked for everywhere else in the bundle."""

    @cached_property
    def in_bytes(self) -> re.Pattern[bytes]:
        """The pattern for files."""
        return re.compile(self.pattern.encode("ascii"))

    @cached_property
    def in_text(self) -> re.Pattern[str]:
        """The pattern for text."""
        return re.compile(self.pattern, re.ASCII)

    @cached_property
    def needles_in_bytes(self) -> tuple[bytes, ...]:
        """The needles for files."""
        return tuple(n.encode("ascii") for n in self.needles)

    def stays(self, value: str, before: str) -> bool:
        """True where what was found is nothing private."""
        return bool(
            PLACEHOLDER.fullmatch(value)
            or (self.keep and re.fullmatch(self.keep, value, re.IGNORECASE))
            or (self.not_after and re.search(self.not_after, before))
            or (self.only_after and not re.search(self.only_after, before))
            or not self.really(value)
        )


_QUOTE = r"(?:\\{0,3}[\"'])?"
"""A quotation mark, or one inside a JSON string, or inside one that is inside one; or none."""
_IS = rf"{_QUOTE}\s{{0,2}}[=:]\s{{0,9}}\[?\s{{0,9}}{_QUOTE}"
"""Between a name and its value: `=`, `: `, `": "`, `': ['`."""
_VALUE = r"[^\s\"'\\,;\]})&<>]+"
_WORD = r"(?<![A-Za-z0-9_])"
"""Nothing of a name stands before."""

_PART = r"[A-Z0-9_]{0,64}"
"""Of a variable's name. Bounded, like all that could begin anew at every letter of a hostile log."""

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_V4 = rf"(?<![\w.])(?P<it>{_OCTET}(?:\.{_OCTET}){{3}})(?![\w-]|\.\d)"
VERSION_BEFORE = (
    r"(?:[=<>~!]=|[vV]|[vV]ersion\W{0,4}|"
    rf"(?:lib)?(?:cu|nv|nccl|driver|release|torch|triton)[\w.-]*{_QUOTE}\s*[:= ]+\s*{_QUOTE})$"
)
"""Behind these, four numbers are a version."""
_NAME = r"[A-Za-z0-9][\w.-]*"
_NAMED = r"(?=[\w.-]*[A-Za-z])[A-Za-z0-9][\w.-]*"
_PRIVATE_ZONE = r"(?:local|internal|lan|corp|intranet|home|localdomain|ts\.net)"
_ADDRESS_NAMES = (
    r"(?:[Hh]ost|HOST|[Aa]ddr(?:ess)?|ADDR|(?<![A-Za-z])[Ii][Pp]|IPAddress|[Gg]ateway|[Ss]erver|[Mm]aster|[Pp]eer|"
    r"inet|[Ll]isten(?:ing)?(?: on| at)?|[Bb]ind|[Ee]ndpoint|[Ss]ubnet|[Ii]nstance|[Rr]emote|[Nn]ode)"
)

RULES: tuple[Rule, ...] = (
    # Keys and tokens, whatever else they look like.
    Rule(
        Kind.KEY,
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?P<it>(?:(?!-----)[\x09\x0a\x0d\x20-\x7e]){1,16384})",
        needles=("PRIVATE KEY",),
        learnt=False,
    ),
    Rule(Kind.TOKEN, rf"{_WORD}(?P<it>hf_[A-Za-z0-9]{{16,}})", ("hf_",)),
    Rule(Kind.TOKEN, rf"{_WORD}(?P<it>(?:gh[pousr]|github_pat)_\w{{16,}})", ("gh", "github_pat_")),
    Rule(
        Kind.TOKEN,
        r"(?<![\w-])(?P<it>(?:sk|nvapi|glpat|xox[abeprs])-(?=[\w-]*\d|[A-Za-z]{20})[\w-]{16,})",
        ("sk-", "nvapi-", "glpat-", "xox"),
    ),
    Rule(
        Kind.TOKEN,
        rf"{_WORD}(?P<it>(?:npm_|dckr_pat_|pypi-|AIza)[A-Za-z0-9_-]{{24,}})",
        ("npm_", "dckr_pat_", "pypi-", "AIza"),
    ),
    Rule(Kind.TOKEN, r"(?<![A-Z0-9])(?P<it>(?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Z0-9])", ("AKIA", "ASIA")),
    Rule(Kind.TOKEN, r"(?<![\w-])(?P<it>eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,})", ("eyJ",)),
    Rule(Kind.TOKEN, r"[Bb]earer\s{1,3}(?P<it>(?=\S*\d|\S{24})[\w.~+/-]{8,}={0,2})", ("earer",)),
    Rule(
        Kind.TOKEN,
        rf"[Aa]uthorization{_IS}(?:[Bb]asic|[Tt]oken|[Dd]igest)\s(?P<it>[\w.~+/-]{{6,}}={{0,2}})",
        ("uthorization",),
    ),
    Rule(Kind.SECRET, r"://(?P<it>[^\s/@\"'\\<>:]*:[^\s/@\"'\\<>]+)@(?!sha256:)", ("://",)),
    Rule(Kind.SECRET, r"://(?P<it>[^\s/@\"'\\<>:]{8,})@(?!sha256:)", ("://",)),
    # What a name calls a secret: of an environment, in any spelling of it, or of an option.
    Rule(
        Kind.SECRET,
        rf"{_WORD}{_PART}(?:SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE){_PART}{_IS}(?P<it>{_VALUE})",
        ("SECRET", "PASS", "CREDENTIAL", "PRIVATE"),
    ),
    Rule(
        Kind.SECRET,
        rf"{_WORD}(?:{_PART}TOKEN(?!S|IZ)|(?:{_PART}_)?(?:API)?KEY)(?:_{_PART})?{_IS}(?P<it>{_VALUE})",
        ("TOKEN", "KEY"),
        really=is_no_constant,
    ),
    Rule(
        Kind.SECRET,
        r"(?<![A-Za-z0-9])(?:api[_-]?key|(?:hf|auth|access|id|refresh|bearer)[_-]token|password|passwd|passphrase|"
        rf"client[_-]secret|secret(?:[_-](?:access[_-])?key)?|private[_-]key){_IS}(?P<it>{_VALUE})",
        ("key", "token", "passw", "passp", "secret"),
        really=is_no_constant,
    ),
    Rule(
        Kind.SECRET,
        rf"--(?:api-key|hf-token|token|password|secret){_QUOTE}(?:\s*,\s*|[= ]){_QUOTE}(?P<it>(?!-){_VALUE})",
        ("--api-key", "--hf-token", "--token", "--password", "--secret"),
    ),
    # Who, and which machine.
    Rule(
        Kind.EMAIL,
        r"(?<![\w.+-])(?P<it>[A-Za-z0-9][\w.+-]*@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})(?![\w-])",
        ("@",),
        keep=r"git@.*",
    ),
    Rule(Kind.UUID, r"(?P<it>(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", ("GPU-", "MIG-")),
    Rule(
        Kind.SERIAL,
        r"(?:[Ss]erial|SERIAL)(?:[ _-]?(?:[Nn]umber|NUMBER|[Nn]o\.?))?"
        rf"{_IS}(?P<it>(?=[\w-]*\d)[A-Za-z0-9][\w-]{{5,}})",
        ("erial", "SERIAL"),
    ),
    Rule(
        Kind.MAC,
        r"(?<![\w:-])(?P<it>[0-9A-Fa-f]{2}(?:(?::[0-9A-Fa-f]{2}){5}|(?:-[0-9A-Fa-f]{2}){5}))(?![\w-]|:[0-9A-Fa-f])",
        keep=r"(?:00[:-]){5}00|(?:ff[:-]){5}ff",
    ),
    # Four numbers may as well be a version, so they are an address by what stands around them ...
    Rule(Kind.ADDRESS, rf"(?<=//){_V4}", ("//",), really=is_network_address),
    Rule(Kind.ADDRESS, rf"{_V4}(?=:\d{{2,5}}(?![\d.])|/\d{{1,2}}(?![\d/.])|<\d)", really=is_network_address),
    Rule(
        Kind.ADDRESS,
        _V4,
        only_after=rf"{_ADDRESS_NAMES}{_QUOTE}\s{{0,2}}[=:]?\s{{0,2}}[\[(]?{_QUOTE}$",
        really=is_network_address,
    ),
    # ... or by being one of a private network.
    Rule(
        Kind.ADDRESS,
        r"(?<![\w.])(?P<it>(?:10\.\d{1,3}|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01])|"
        r"100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.\d{1,3}\.\d{1,3})(?![\w-]|\.\d)",
        not_after=VERSION_BEFORE,
        really=is_network_address,
    ),
    Rule(
        Kind.ADDRESS,
        r"(?<![\w:.])(?P<it>(?:[23][0-9A-Fa-f]{3}|[Ff]e80|[Ff][CcDd][0-9A-Fa-f]{2})(?::[0-9A-Fa-f]{0,4}){2,7})(?![\w:])",
        really=is_network_address,
    ),
    Rule(Kind.HOST, rf"(?<![\w.-])(?P<it>{_NAME}):\d+:\d+ \[\d+\] NCCL ", (" NCCL ",), really=names_somebody),
    Rule(
        Kind.HOST,
        r"(?<![A-Za-z0-9])(?:[Hh]ostname|HOSTNAME|host_name|[Nn]ode_?[Nn]ame|NODENAME|nodelist|"
        rf"SLURM\w*(?:NODELIST|NODENAME|HOST)){_IS}(?P<it>{_NAMED})",
        ("ostname", "OSTNAME", "host_name", "ode", "NODE", "SLURM"),
        keep=r"[0-9a-f]{12}|[0-9a-f]{64}",  # a container's id
        really=names_somebody,
    ),
    Rule(
        Kind.HOST,
        rf"(?:--(?:host|master-addr|node-ip){_QUOTE}(?:\s*,\s*|[= ])|[\"']host[\"']\s?:\s){_QUOTE}(?P<it>{_NAMED})",
        ("--host", "--master-addr", "--node-ip", 'host"', "host'"),
        really=names_somebody,
    ),
    Rule(
        Kind.HOST,
        r"(?:https?|tcp|grpc|ssh|redis|git)://(?:[^\s/@\"'\\<>]+@)?(?P<it>[A-Za-z][A-Za-z0-9-]*)(?=[:/\s\"'\\,)]|$)",
        ("://",),
        really=names_somebody,
    ),
    Rule(
        Kind.HOST,
        rf"(?:://|@)(?P<it>(?:[A-Za-z0-9-]+\.)+{_PRIVATE_ZONE})(?![\w.-])",
        ("://", "@"),
        keep=r"host\.docker\.internal",
    ),
    Rule(
        Kind.HOST,
        rf"(?<![\w.@/-])(?P<it>(?=[a-z]*[0-9-])[A-Za-z0-9-]+\.(?:[A-Za-z0-9-]+\.)*{_PRIVATE_ZONE})(?![\w.(-])",
        (".local", ".internal", ".lan", ".corp", ".intranet", ".home", ".ts.net"),
    ),
    Rule(Kind.HOST, r"(?<![\w@])[a-z_][\w-]*@(?P<it>[A-Za-z][\w.-]*):[~/]", ("@",), keep=r".*\.(?:com|org|net|io)"),
    Rule(
        Kind.USER,
        r"[/\\](?:home|Users)[/\\]{1,2}(?P<it>(?:[^/\\\s\"'`<>:|*?,;)\]}(\[{$]|\\u[0-9a-f]{4})+)",
        really=names_somebody,
    ),
    Rule(
        Kind.USER,
        r"/(?:users|scratch|netscratch)/(?P<it>[A-Za-z_][\w-]*)(?=/)",
        ("/users/", "scratch/"),
        really=names_somebody,
        learnt=False,
    ),
    Rule(
        Kind.USER,
        r"(?:pytest-of-|torchinductor_)(?P<it>[A-Za-z_][\w.-]*)",
        ("pytest-of-", "torchinductor_"),
        really=names_somebody,
    ),
    Rule(
        Kind.USER,
        rf"{_WORD}(?:USER|LOGNAME|USERNAME|SUDO_USER|username){_IS}(?P<it>[A-Za-z_][\w.-]*)",
        ("USER", "LOGNAME", "username"),
        really=names_somebody,
    ),
    Rule(Kind.USER, r"(?<![\w@])(?P<it>[a-z_][\w-]*)@[A-Za-z][\w.-]*:[~/]", ("@",), really=names_somebody),
    Rule(Kind.USER, r"(?<![\w~/])~(?P<it>[a-z_][\w-]*)/", ("~",), really=names_somebody, learnt=False),
)
"""The earlier rule has it where two find the same bytes."""
