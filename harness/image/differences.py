"""Where a running container differs from what it is expected to be. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from harness.image.identity import (
    LINK,
    ExpectedImage,
    ExpectedPackage,
    FoundFile,
    FoundImage,
    Mismatch,
    Probed,
)
from harness.image.names import BASE_DIGEST

NOTHING = "nothing"
ABSENT = "no file"


def compare(expected: ExpectedImage, found: FoundImage, *, served_model: str | None = None) -> tuple[Mismatch, ...]:
    """Every difference, the image's own first."""
    return (
        *_image(expected, found),
        *(m for name in expected.packages for m in _package(name, expected.packages[name], found.probed)),
        *_interpreter(found.probed),
        *_server(found, served_model),
    )


def _image(expected: ExpectedImage, found: FoundImage) -> Iterator[Mismatch]:
    if found.image_id != expected.image_id:
        yield Mismatch(what="image id of the container", expected=expected.image_id, found=found.image_id)
    if expected.tag is not None and found.tag_image_id != expected.image_id:
        yield Mismatch(
            what=f"image behind tag {expected.tag}", expected=expected.image_id, found=found.tag_image_id or NOTHING
        )
    digests = [reference.partition("@")[2] for reference in found.repo_digests]
    if expected.manifest_digest is not None and expected.manifest_digest not in digests:
        yield Mismatch(
            what="manifest digest", expected=expected.manifest_digest, found=", ".join(found.repo_digests) or NOTHING
        )
    labels = dict(expected.labels)
    if expected.base_digest is not None:
        labels[BASE_DIGEST] = expected.base_digest
    for name, value in sorted(labels.items()):
        if found.labels.get(name) != value:
            yield Mismatch(what=f"label {name}", expected=value, found=found.labels.get(name) or NOTHING)
    if not found.running:
        yield Mismatch(what="state of the container", expected="running", found="ended")
    if found.restarts != 0:
        yield Mismatch(what="restarts of the container", expected="0", found=str(found.restarts))


def _package(name: str, expected: ExpectedPackage, probed: Probed | None) -> Iterator[Mismatch]:
    listed = " or ".join(expected.roots)
    found = probed.packages.get(name) if probed is not None else None
    if found is None:
        yield Mismatch(what=f"package {name}", expected=f"imported from {listed}", found="not looked at")
        return
    known = {found.real[root] for root in expected.roots}
    if not found.imported:
        problem = f" ({found.error})" if found.error else ""
        yield Mismatch(what=f"package {name}", expected=f"imported from {listed}", found=f"no such package{problem}")
    for root in dict.fromkeys((*found.imported, *found.on_path)):
        if found.real[root] not in known:
            how = "imported from" if root in found.imported else "an installed copy in"
            wrong = sum(_differs(found.files[f"{root}/{f}"], sha256) for f, sha256 in expected.files.items())
            yield Mismatch(
                what=f"package {name}",
                expected=f"copies in {listed} and no others",
                found=f"{how} {root}, where {wrong} of {len(expected.files)} patched files differ",
            )
    for root in expected.roots:
        for file, sha256 in expected.files.items():
            yield from _file(f"{root}/{file}", sha256, found.files[f"{root}/{file}"])


def _file(path: str, expected: str | None, found: FoundFile) -> Iterator[Mismatch]:
    if _differs(found, expected):
        yield Mismatch(what=path, expected=_shown(expected), found=_shown(_hash_of(found, expected)))
    if found.stale is not None:
        yield Mismatch(what=path, expected="no .pyc that hides it", found=f"{found.stale} holds other code")
    for other in found.shadows:
        yield Mismatch(what=path, expected="nothing that Python imports in its place", found=other)


def _differs(found: FoundFile, expected: str | None) -> bool:
    return _hash_of(found, expected) != expected


def _hash_of(found: FoundFile, expected: str | None) -> str | None:
    """As `expected` is written: a link counts by its target only where one is expected, or nothing is."""
    linked = expected is None or expected.startswith(LINK)
    return f"{LINK}{found.link_sha256}" if linked and found.link_sha256 is not None else found.sha256


def _interpreter(probed: Probed | None) -> Iterator[Mismatch]:
    if probed is not None and probed.servers and probed.python not in probed.servers:
        yield Mismatch(what="program of the server", expected=probed.python, found=", ".join(probed.servers))


def _server(found: FoundImage, served_model: str | None) -> Iterator[Mismatch]:
    if served_model is not None and served_model not in (found.served_models or ()):
        names = ", ".join(found.served_models) if found.served_models is not None else "no answer"
        yield Mismatch(what="model that /v1/models names", expected=served_model, found=names or NOTHING)
    banner, api = found.log_version, found.api_version
    if banner is not None and api is not None and banner != api:
        yield Mismatch(what="vLLM's version, banner and /version", expected=f"one; the log says {banner}", found=api)


def _shown(sha256: str | None) -> str:
    return ABSENT if sha256 is None else sha256
