"""Archives of strangers: what no bundle holds is refused before it is written."""

from __future__ import annotations

import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from harness.errors import RefusedBundle
from harness.evidence.names import DEPTH
from harness.evidence.unpack import Limits, unpack
from tests.verification.hostile import long_name, overlapping, tar_gz, tar_member, tar_zst, zipped, zstd_bomb

UNSAFE = {
    "leads-out": ("../x", "leads elsewhere"),
    "leads-out-inside": ("a/../../x", "leads elsewhere"),
    "dot-inside": ("a/./x", "leads elsewhere"),
    "absolute": ("/etc/x", "absolute"),
    "drive": ("C:/x", "absolute"),
    "backslash": ("a\\..\\x", "backslash"),
    "newline": ("a\nb", "not to be seen"),
    "escape": ("a\x1b[31mb", "not to be seen"),
    "right-to-left": ("a\u202etxt.exe", "not to be seen"),
    "invisible": ("a\u200bb", "not to be seen"),
    "nothing-between": ("a//b", "leads elsewhere"),
    "dot-at-the-end": ("a./b", "ends in"),
    "space-at-the-end": ("a /b", "ends in"),
    "deep": ("/".join("a" * (DEPTH + 1)), "folders deep"),
    "long": ("a" * 256, "longer than"),
}


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """Where it is unpacked, with a place beside it that nothing may reach."""
    folder = tmp_path / "beside" / "into"
    folder.mkdir(parents=True)
    return folder


def refused(archive: Path, into: Path, limits: Limits | None = None) -> str:
    """The line that a user reads; nothing lies beside the folder afterwards."""
    with pytest.raises(RefusedBundle) as caught:
        unpack(archive, into, limits)
    assert [p.name for p in into.parent.iterdir()] == ["into"]
    assert not any(p.is_symlink() for p in into.rglob("*"))
    [line] = str(caught.value).splitlines()
    assert line.isprintable()
    return line


@pytest.mark.parametrize(("name", "why"), UNSAFE.values(), ids=UNSAFE)
class TestUnsafeNames:
    def test_in_a_tar(self, tmp_path: Path, into: Path, name: str, why: str) -> None:
        assert why in refused(tar_zst(tmp_path / "a.tar.zst", [tar_member(name)]), into)

    def test_in_a_zip(self, tmp_path: Path, into: Path, name: str, why: str) -> None:
        assert why in refused(zipped(tmp_path / "a.zip", [(name, b"x")]), into)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a/x", "a/x"), "is there twice"),
        (("a/x", "A/X"), "only in case or Unicode form"),
        (("a/x", "A/y"), "only in case or Unicode form"),
        (("caf\u00e9", "cafe\u0301"), "only in case or Unicode form"),
        (("\ufb01le", "file"), "only in case or Unicode form"),
        (("a", "a/x"), "both a file and a folder"),
        (("a/x", "a"), "both a file and a folder"),
    ],
    ids=["twice", "case", "case-of-folder", "normal-form", "ligature", "file-then-folder", "folder-then-file"],
)
class TestNamesThatMeanOneFile:
    def test_in_a_tar(self, tmp_path: Path, into: Path, names: tuple[str, ...], why: str) -> None:
        assert why in refused(tar_gz(tmp_path / "a.tar.gz", map(tar_member, names)), into)

    def test_in_a_zip(self, tmp_path: Path, into: Path, names: tuple[str, ...], why: str) -> None:
        assert why in refused(zipped(tmp_path / "a.zip", [(n, b"x") for n in names]), into)


class TestTar:
    @pytest.mark.parametrize(
        ("kind", "why"),
        [
            (tarfile.SYMTYPE, "is a symbolic link"),
            (tarfile.LNKTYPE, "is a hard link"),
            (tarfile.CHRTYPE, "is a device"),
            (tarfile.BLKTYPE, "is a device"),
            (tarfile.FIFOTYPE, "is a pipe"),
            (tarfile.CONTTYPE, "neither a file nor a folder"),
            (tarfile.GNUTYPE_SPARSE, "neither a file nor a folder"),
        ],
        ids=["symlink", "hardlink", "character-device", "block-device", "fifo", "contiguous", "sparse"],
    )
    def test_what_is_no_file_is_refused(self, tmp_path: Path, into: Path, kind: bytes, why: str) -> None:
        members = [tar_member("plan.json"), tar_member("x", kind=kind, link="../../../etc/passwd")]
        assert why in refused(tar_zst(tmp_path / "a.tar.zst", members), into)

    def test_a_name_that_is_not_utf8_is_refused(self, tmp_path: Path, into: Path) -> None:
        info = tarfile.TarInfo("caf\udce9")
        info.size = 1
        archive = tmp_path / "a.tar.zst"
        import zstandard

        archive.write_bytes(zstandard.compress(info.tobuf(tarfile.USTAR_FORMAT) + b"x" + bytes(511 + 1024)))
        assert "not to be seen" in refused(archive, into)

    def test_a_bomb_is_refused_after_its_first_part(self, tmp_path: Path, into: Path) -> None:
        archive = zstd_bomb(tmp_path / "a.tar.zst", 512 << 20)
        assert archive.stat().st_size < 100_000
        assert "unpacks to more than 500 times" in refused(archive, into)
        assert sum(p.stat().st_size for p in into.rglob("*")) <= Limits().free_bytes

    def test_a_header_that_asks_for_memory_is_refused(self, tmp_path: Path, into: Path) -> None:
        assert "a header of" in refused(long_name(tmp_path / "a.tar.zst", 7 << 30), into)

    @pytest.mark.parametrize("kept", [600, 1500, 2048])
    def test_a_torn_one_is_refused(self, tmp_path: Path, into: Path, kept: int) -> None:
        archive = tar_zst(tmp_path / "a.tar.zst", [tar_member("a", bytes(range(256)) * 20)])
        import zstandard

        data = zstandard.decompress(archive.read_bytes())[:kept]
        archive.write_bytes(zstandard.compress(data))
        assert "damaged" in refused(archive, into)

    def test_a_torn_stream_is_refused(self, tmp_path: Path, into: Path) -> None:
        for archive in (
            tar_zst(tmp_path / "a.tar.zst", [tar_member("a", bytes(range(256)) * 200)]),
            tar_gz(tmp_path / "a.tar.gz", [tar_member("a", bytes(range(256)) * 200)]),
        ):
            archive.write_bytes(archive.read_bytes()[:-20])
            assert "damaged" in refused(archive, into)
            (into / "a").unlink(missing_ok=True)

    def test_too_many_members_are_refused(self, tmp_path: Path, into: Path) -> None:
        members = [tar_member(f"f{n}") for n in range(11)]
        assert "more than 10 files" in refused(tar_zst(tmp_path / "a.tar.zst", members), into, Limits(members=10))


class TestZip:
    @pytest.mark.parametrize(
        ("mode", "why"),
        [(0o120777, "symbolic link"), (0o010644, "neither"), (0o020644, "neither")],
        ids=["symlink", "fifo", "device"],
    )
    def test_what_is_no_file_is_refused(self, tmp_path: Path, into: Path, mode: int, why: str) -> None:
        member = zipfile.ZipInfo("x")
        member.external_attr = mode << 16
        assert why in refused(zipped(tmp_path / "a.zip", [("plan.json", b"{}"), (member, b"/etc/passwd")]), into)

    def test_a_bomb_is_refused_before_it_is_unpacked(self, tmp_path: Path, into: Path) -> None:
        archive = zipped(tmp_path / "a.zip", [("plan.json", bytes(160 << 20))])
        assert "unpacks to more than 500 times" in refused(archive, into)
        assert list(into.rglob("*")) == []

    def test_members_that_share_bytes_are_refused(self, tmp_path: Path, into: Path) -> None:
        assert "shares bytes with" in refused(overlapping(tmp_path / "a.zip", 100), into)

    @pytest.mark.parametrize("size", [10, 5000], ids=["smaller", "larger"])
    def test_another_size_than_declared_is_refused(self, tmp_path: Path, into: Path, size: int) -> None:
        archive = zipped(tmp_path / "a.zip", [("plan.json", b"{}" * 500)])
        data = bytearray(archive.read_bytes())
        struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, size)
        archive.write_bytes(data)
        assert "plan.json: " in refused(archive, into)

    @pytest.mark.parametrize(
        ("field", "value", "why"), [(8, 1, "is encrypted"), (10, 14, "compressed by method 14")], ids=["flag", "method"]
    )
    def test_what_cannot_be_read_is_refused(self, tmp_path: Path, into: Path, field: int, value: int, why: str) -> None:
        archive = zipped(tmp_path / "a.zip", [("plan.json", b"{}")])
        data = bytearray(archive.read_bytes())
        struct.pack_into("<H", data, data.index(b"PK\x01\x02") + field, value)
        archive.write_bytes(data)
        assert why in refused(archive, into)

    def test_a_directory_that_asks_for_memory_is_refused(self, tmp_path: Path, into: Path) -> None:
        archive = tmp_path / "a.zip"
        archive.write_bytes(
            b"PK\x03\x04" + bytes(100) + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 9, 9, 1 << 30, 0, 0)
        )
        assert "no bundle has as many" in refused(archive, into)

    def test_one_of_64_bits_is_refused(self, tmp_path: Path, into: Path) -> None:
        archive = zipped(tmp_path / "a.zip", [("plan.json", b"{}")])
        data = archive.read_bytes()
        archive.write_bytes(data[:-22] + b"PK\x06\x07" + bytes(16) + data[-22:])
        assert "use .tar.zst" in refused(archive, into)

    def test_too_many_members_are_refused(self, tmp_path: Path, into: Path) -> None:
        members = [(f"f{n}", b"x") for n in range(11)]
        assert "11 members" in refused(zipped(tmp_path / "a.zip", members), into, Limits(members=10))


def test_what_is_no_archive_is_refused(tmp_path: Path, into: Path) -> None:
    archive = tmp_path / "a.tar.zst"
    for data in (b"", b"P", b"hello, world", b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"PK\x03\x04"):
        archive.write_bytes(data)
        assert refused(archive, into)
