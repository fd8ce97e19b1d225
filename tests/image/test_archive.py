"""An archive holds the image that its record names, or is refused; and nothing half-written has its name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from harness.errors import ConfigError, QualifyError, SetupFailure
from harness.image.archive import default_output, load_image, save_image
from harness.image.archive_record import ArchiveRecord, read_record, record_file
from harness.image.names import LOCK
from harness.launch.docker.engine import Engine, EngineError
from tests.containers.base import REPOSITORY, TAG
from tests.image import toy

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker-images")]

BASE_TAG = f"{REPOSITORY}:{TAG}"


@pytest.fixture(scope="module")
def saved(engine: Engine, small: toy.Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of an image, with its record."""
    path = tmp_path_factory.mktemp("saved") / "toy.tar.zst"
    save_image(engine, engine.image(small.tag), path)
    return path


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    """One that a test may spoil."""
    for path in (saved, record_file(saved)):
        shutil.copy(path, tmp_path)
    return tmp_path / saved.name


def edit(archive: Path, **changes: object) -> None:
    path = record_file(archive)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes), "utf-8")


class TestSaving:
    def test_the_record_says_all_that_the_image_is(self, saved: Path, small: toy.Built) -> None:
        record = read_record(saved)
        assert record.image_id == small.id
        assert small.tag in record.tags, "another test may have given it one more"
        assert record.lock_sha256 == record.labels[LOCK] == toy.small_lock().sha256
        assert record.base_digest == toy.BASE_DIGEST
        assert record.size_bytes == saved.stat().st_size > 1 << 20

    def test_nothing_else_is_left_there(self, saved: Path) -> None:
        assert {p.name for p in saved.parent.iterdir()} == {"toy.tar.zst", "toy.tar.zst.json"}

    def test_any_tool_reads_it(self, saved: Path) -> None:
        """A frame of Zstandard, with its magic number, around what `docker save` writes."""
        import pyarrow as pa

        assert saved.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
        with pa.CompressedInputStream(pa.OSFile(str(saved)), "zstd") as stream:
            assert b"ustar" in stream.read(512)

    def test_one_that_is_there_is_not_overwritten(self, engine: Engine, small: toy.Built, copy: Path) -> None:
        before = copy.read_bytes()
        with pytest.raises(ConfigError, match="is there already; remove it, or name another file with --output"):
            save_image(engine, engine.image(small.id), copy)
        assert copy.read_bytes() == before

    def test_another_ending_is_refused(self, engine: Engine, small: toy.Built, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"an archive's name ends in .tar.zst"):
            save_image(engine, engine.image(small.id), tmp_path / "toy.tar")

    def test_the_default_name_is_the_images_id(self, engine: Engine, small: toy.Built, tmp_path: Path) -> None:
        assert default_output(engine.image(small.id), tmp_path).name == f"{small.id[7:23]}.tar.zst"

    def test_an_engine_that_breaks_off_leaves_nothing(
        self, engine: Engine, small: toy.Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_: Engine, image: str) -> Iterator[bytes]:
            yield bytes(1 << 20)
            raise EngineError(f"{image}: unexpected EOF")

        monkeypatch.setattr(Engine, "save", broken)
        with pytest.raises(SetupFailure, match=r"cannot be saved: .*unexpected EOF"):
            save_image(engine, engine.image(small.id), tmp_path / "toy.tar.zst")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(os.getuid() != 0, reason="takes root to mount a small file system")
    def test_a_full_disk_leaves_nothing(self, engine: Engine, small: toy.Built, tmp_path: Path) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=True)
        try:
            with pytest.raises(SetupFailure, match=r"toy.tar.zst cannot be written: No space left on device; --output"):
                save_image(engine, engine.image(small.id), tmp_path / "toy.tar.zst")
            assert list(tmp_path.iterdir()) == []
        finally:
            subprocess.run(["umount", str(tmp_path)], check=True)

    def test_a_record_that_cannot_be_written_takes_the_archive_with_it(
        self, engine: Engine, small: toy.Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("harness.image.archive.write_record", full)
        with pytest.raises(SetupFailure, match="No space left on device"):
            save_image(engine, engine.image(small.id), tmp_path / "toy.tar.zst")
        assert list(tmp_path.iterdir()) == []


class TestLoading:
    def test_an_image_that_is_gone_comes_back_with_its_id_and_name(
        self, engine: Engine, client: docker.DockerClient, tmp_path: Path
    ) -> None:
        with toy.image(client, "scratch", {"/lost": b"x"}, {}) as lost:
            save_image(engine, engine.image(lost.id), tmp_path / "lost.tar.zst")
            client.images.remove(lost.tag)
            with pytest.raises(ImageNotFound):
                client.images.get(lost.id)
            loaded = load_image(engine, tmp_path / "lost.tar.zst")
            assert (loaded.record.image_id, loaded.tagged, loaded.taken) == (lost.id, (lost.tag,), ())
            assert client.images.get(lost.tag).id == lost.id

    def test_a_name_that_another_image_has_now_is_left_alone(
        self, engine: Engine, small: toy.Built, base: str, copy: Path
    ) -> None:
        edit(copy, tags=[small.tag, BASE_TAG])
        loaded = load_image(engine, copy)
        assert (loaded.tagged, loaded.taken) == ((), (BASE_TAG,))
        assert engine.image(BASE_TAG)["Id"] == base

    @pytest.mark.parametrize(
        ("spoil", "told"),
        [
            (lambda data: data[:-1], r"expected \d+ bytes, found \d+; it was cut off"),
            (lambda data: data[:2000] + bytes([data[2000] ^ 1]) + data[2001:], "expected SHA-256 .* it was changed"),
        ],
        ids=["cut off", "one bit"],
    )
    def test_a_spoilt_archive_is_refused_before_the_engine_sees_it(
        self, engine: Engine, copy: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[bytes], bytes], told: str
    ) -> None:
        monkeypatch.delattr(Engine, "load")
        copy.write_bytes(spoil(copy.read_bytes()))
        with pytest.raises(SetupFailure, match=told):
            load_image(engine, copy)

    def test_an_archive_of_another_image_is_refused(self, engine: Engine, copy: Path) -> None:
        wrong = f"sha256:{'0' * 64}"
        edit(copy, image_id=wrong)
        with pytest.raises(SetupFailure, match=f"expected image {wrong}, found .*Loaded image ID: sha256:"):
            load_image(engine, copy)

    def test_one_whose_record_agrees_and_that_is_no_image_is_refused(self, engine: Engine, tmp_path: Path) -> None:
        import pyarrow as pa

        path = tmp_path / "nonsense.tar.zst"
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
            stream.write(b"no tar at all" * 1000)
        record = ArchiveRecord(
            image_id=f"sha256:{'0' * 64}",
            tags=(),
            repo_digests=(),
            labels={},
            base_digest=None,
            lock_sha256=None,
            sha256=toy.sha256(path.read_bytes()),
            size_bytes=path.stat().st_size,
        )
        record_file(path).write_text(record.model_dump_json(), "utf-8")
        with pytest.raises(SetupFailure, match="cannot be loaded"):
            load_image(engine, path)

    def test_a_missing_archive_is_named(self, engine: Engine, copy: Path) -> None:
        copy.unlink()
        with pytest.raises(SetupFailure, match="No such file"):
            load_image(engine, copy)

    @pytest.mark.parametrize(
        ("spoil", "told"),
        [
            (Path.unlink, "without it nobody can tell what toy.tar.zst should be"),
            (lambda path: path.write_text("{", "utf-8"), "no record of an archive"),
            (lambda path: path.write_text('{"schema_version": 2}', "utf-8"), r"schema 2 is newer than .* \(1\)"),
        ],
        ids=["missing", "no JSON", "newer"],
    )
    def test_an_archive_without_its_record_is_refused(
        self, engine: Engine, copy: Path, spoil: Callable[[Path], object], told: str
    ) -> None:
        spoil(record_file(copy))
        with pytest.raises(QualifyError, match=told):
            load_image(engine, copy)
