"""The host's key: made once, for its owner alone, and never where others look."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import ConfigError
from harness.evidence.keys import key_path, load_key, make_key, public_key, read_public_keys, short
from harness.paths import PROJECT
from harness.words import ExitCode


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "keys" / "host.pem"
    monkeypatch.setenv("QUALIFY_KEY", str(path))
    return path


def test_init_makes_a_key_for_its_owner_alone_and_show_shows_its_public_half(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "init"]) == 0
    made = capsys.readouterr().out
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert main(["keys", "show"]) == 0
    assert capsys.readouterr().out == made
    assert "BEGIN PUBLIC KEY" in made
    assert "PRIVATE" not in made
    key = load_key()
    assert key is not None
    assert key.id in made
    assert len(key.id) == 64
    assert short(key.id) == key.id[:12]


def test_a_key_is_never_overwritten(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_key()
    before = place.read_bytes()
    assert main(["keys", "init"]) == ExitCode.USAGE
    assert "is there already" in capsys.readouterr().err
    assert place.read_bytes() == before


def test_a_link_is_not_followed(place: Path, tmp_path: Path) -> None:
    place.parent.mkdir()
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"is there already|cannot be written"):
        make_key()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused(place: Path, mode: int) -> None:
    make_key()
    place.chmod(mode)
    with pytest.raises(ConfigError, match=f"may be read by others .mode {mode:04o}.; chmod 600"):
        load_key()


@pytest.mark.parametrize("where", ["repository", "results", "locks"])
def test_a_place_whose_files_are_shown_to_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("QUALIFY_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("QUALIFY_LOCKS", str(tmp_path / "locks"))
    path = {"repository": PROJECT, "results": tmp_path / "results", "locks": tmp_path / "locks"}[where] / "host.pem"
    monkeypatch.setenv("QUALIFY_KEY", str(path))
    with pytest.raises(ConfigError, match="whose files are shown to others"):
        make_key()
    assert not path.exists()


def test_a_key_that_was_moved_into_the_results_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_key()
    monkeypatch.setenv("QUALIFY_RESULTS", str(tmp_path / "keys"))
    with pytest.raises(ConfigError, match="whose files are shown to others"):
        load_key()


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_key_is_refused(place: Path, text: str) -> None:
    place.parent.mkdir()
    place.write_text(text, "ascii")
    place.chmod(0o600)
    with pytest.raises(ConfigError, match="is no private key"):
        load_key()


def test_another_kind_of_key_is_refused(place: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    place.parent.mkdir()
    key = generate_private_key(SECP256R1())
    place.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
    place.chmod(0o600)
    with pytest.raises(ConfigError, match="is no ed25519 key"):
        load_key()
    text = key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo).decode()
    with pytest.raises(ConfigError, match="none of ed25519"):
        public_key(text)


def test_a_host_without_a_key_signs_nothing_unless_one_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="is not there; `qualify keys init` makes it"):
        load_key()
    monkeypatch.delenv("QUALIFY_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert key_path() == tmp_path / "config" / "qualify" / "keys" / "host.ed25519.pem"
    assert load_key() is None
    assert main(["keys", "show"]) == ExitCode.USAGE
    assert "this host has no key" in capsys.readouterr().err


def test_public_keys_are_read_from_what_show_shows(tmp_path: Path) -> None:
    key = make_key()
    (tmp_path / "reviewer.pem").write_text(key.public, "ascii")
    [read] = read_public_keys([tmp_path / "reviewer.pem"])
    assert read.keyid == key.id
    (tmp_path / "broken.pem").write_text("x", "ascii")
    for name in ("broken.pem", "missing.pem"):
        with pytest.raises(ConfigError, match=name):
            read_public_keys([tmp_path / name])
