"""Freeze a session's text prompts: rendered by the first server that is ready, the same ids for all."""

from __future__ import annotations

import requests

from harness.client.texts import needles, rendered_sha256, texts, texts_sha256
from harness.client.tokenizing import token_ids
from harness.evidence.bundle import Bundle, write_once
from harness.launch.launcher import LaunchFailed
from harness.records import FrozenPrompts


def freeze(bundle: Bundle, launch: str, base_url: str, *, model: str, seed: int) -> tuple[FrozenPrompts, str]:
    """The session's prompts, and the hash of what this server's tokenizer makes of the same texts.

    Raises:
        LaunchFailed: the server does not render them.
    """
    try:
        own = _rendered(launch, base_url, model=model, seed=seed)
    except ValueError as e:
        raise LaunchFailed("prompts", str(e)) from None
    if not bundle.prompts_file.exists():
        write_once(bundle.prompts_file, own)  # lanes start side by side, and all of them read the same file
    frozen = bundle.prompts()
    assert frozen is not None
    return frozen, rendered_sha256(own.ids)


def _rendered(launch: str, base_url: str, *, model: str, seed: int) -> FrozenPrompts:
    with requests.Session() as session:
        session.trust_env = False  # a proxy of the user's must not stand between us and the server

        def ids(text: str) -> tuple[int, ...]:
            return tuple(token_ids(session, base_url, model, text))

        return FrozenPrompts(
            launch=launch,
            texts_sha256=texts_sha256(),
            ids={text.name: ids(text.text) for text in texts()},
            needles=tuple((ids(needle.fact), ids(needle.question)) for needle in needles(seed)),
        )
