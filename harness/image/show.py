"""A verification in lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from harness.image.identity import FoundImage, Verification


def verification_lines(verification: Verification) -> Iterator[str]:
    """What `qualify image verify` prints: what was found, then every mismatch, then the outcome."""
    found = verification.found
    for name, value in _facts(found):
        yield f"{name:18} {value}"
    if found.probed is not None:
        for name, package in found.probed.packages.items():
            yield f"{f'package {name}':18} {package.origin or 'not found'}"
            wanted = verification.expected.packages[name]
            yield f"{'':18} {len(wanted.files)} patched files in each of: {', '.join(wanted.roots)}"
    for mismatch in verification.mismatches:
        yield f"MISMATCH           {mismatch}"
    count = len(verification.mismatches)
    yield f"{'outcome':18} {f'{count} mismatches' if count > 1 else 'a mismatch' if count else 'as expected'}"


def _facts(found: FoundImage) -> Iterator[tuple[str, str]]:
    yield "image id", found.image_id
    if found.tag_image_id is not None:
        yield "behind the tag", found.tag_image_id
    yield "manifest digests", ", ".join(found.repo_digests) or "none: it was never in a registry"
    yield "restarts", str(found.restarts)
    if found.served_models is not None:
        yield "serves", ", ".join(found.served_models)
    for name, version in (("vLLM, /version", found.api_version), ("vLLM, banner", found.log_version)):
        if version is not None:
            yield name, version
    if found.probed is not None:
        yield "Python", f"{found.probed.python} ({found.probed.python_version})"
