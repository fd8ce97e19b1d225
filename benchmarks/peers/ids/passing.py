"""A tokenizer for prompts that are token ids already: it gives back what it is given.

`vllm bench serve` loads it with `--tokenizer FOLDER --trust-remote-code`. That of vLLM 0.25.1 takes no data set
without a tokenizer, and those of transformers refuse lists of ids. The tool counts each prompt with it before the
first is sent, and sends the prompt as it was, so nothing here lies in what is timed.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Encoding(NamedTuple):
    """What transformers' tokenizers answer, as far as it is read."""

    input_ids: list[int]


class PassingIds:
    """No words: what vLLM asks of a tokenizer when it loads one, and the call."""

    is_fast = True
    all_special_ids: tuple[int, ...] = ()
    all_special_tokens: tuple[str, ...] = ()

    @classmethod
    def from_pretrained(cls, *_: object, **__: object) -> PassingIds:
        """There is nothing to read."""
        return cls()

    @classmethod
    def register_for_auto_class(cls) -> None:
        """Asked for by transformers' AutoTokenizer."""

    def get_vocab(self) -> dict[str, int]:
        """One word, since vLLM looks for the longest one and the largest id."""
        return {"": 0}

    def __len__(self) -> int:
        """Not zero: the tool asks whether it has a tokenizer by its truth."""
        return 1

    def __call__(self, prompt: list[int], **_: Any) -> Encoding:
        """The ids of a prompt that is ids."""
        return Encoding(prompt)
