"""Ask a server's own tokenizer: the only one that is sure to be the one that it serves with."""

from __future__ import annotations

import requests


def token_ids(session: requests.Session, base_url: str, model: str, text: str, *, timeout_s: float = 30) -> list[int]:
    """Token ids of a text, without special tokens.

    Raises:
        ValueError: the server does not say, or it has no ids for it.
    """
    body = {"model": model, "prompt": text, "add_special_tokens": False}
    try:
        response = session.post(f"{base_url}/tokenize", json=body, timeout=timeout_s)
        response.raise_for_status()
        ids = response.json()["tokens"]
    except (requests.RequestException, ValueError, KeyError, TypeError) as e:
        raise ValueError(f"/tokenize: {type(e).__name__}: {e}") from None
    if not isinstance(ids, list) or not ids or not all(type(i) is int for i in ids):
        raise ValueError(f'/tokenize gives no ids for {text[:40]!r}; set course.prompts = "ids" for such a tokenizer')
    return ids
