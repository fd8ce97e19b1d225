"""Known answers for tests: a model, and a server."""

from __future__ import annotations

import argparse

from harness.commands.base import Commands


def add(commands: Commands) -> None:
    """Add these commands to the parser."""
    forge = commands.add_parser("forge", help="write a model whose every answer is known")
    _add_forge_arguments(forge)
    forge.set_defaults(command=_forge)

    fake = commands.add_parser("fake-server", help="a vLLM with known answers and faults on demand, for your own tests")
    _add_fake_arguments(fake)
    fake.set_defaults(command=_fake_server)


def _add_forge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", help="folder to write to")
    for option, kind, text in (
        ("--layers", int, "decoder layers; more change speed and memory, never the answer (1)"),
        ("--hidden", int, "hidden size, at least the vocabulary (128)"),
        ("--head-size", int, "64 or 128 for every backend; 16 makes a CPU server die at its first request (64)"),
        ("--kv-heads", int, "key/value heads (1)"),
        ("--intermediate", int, "width of the MLP (128)"),
        ("--vocab", int, "vocabulary size (the hidden size)"),
        ("--max-context", int, "max_position_embeddings (40960)"),
        ("--seed", int, "seed of the successor map, the wrong drafts and the filler (0)"),
        ("--wrong-drafts", float, "share of tokens after which the MTP layer drafts wrongly (0.3)"),
    ):
        parser.add_argument(option, type=kind, metavar="N", help=text, default=argparse.SUPPRESS)
    for option, text in (
        ("--changed-successor", "one token's successor differs from the same model without this"),
        ("--mla", "multi-head latent attention, in DeepSeek-V3's shape"),
        ("--near-tie", "that token's two best successors nearly tie; with --changed-successor the other one wins"),
    ):
        parser.add_argument(option, action="store_true", help=text, default=argparse.SUPPRESS)


def _add_fake_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="DIR", help="folder of a forged model; a small model's rule without it")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at (8000)")
    parser.add_argument("--served-name", metavar="NAME", default="fake", help="name of the model (fake)")
    parser.add_argument("--mtp", action="store_true", help="draft one token per step")
    for option, kind, text in (
        ("--acceptance", float, "share of drafts that are right, without a model folder (0.7)"),
        ("--ttft-s", float, "seconds before every first token (0)"),
        ("--step-s", float, "seconds per decode step (0)"),
        ("--prefill-tok-s", float, "prompt tokens per second (no wait)"),
        ("--tokens-per-event", int, "steps whose tokens share one event (1)"),
    ):
        parser.add_argument(option, type=kind, metavar="N", help=text)
    parser.add_argument("--log-version", metavar="V", help="version whose log is written, 0.8.5 to 0.32.0 (0.32.0)")
    parser.add_argument("--faults", metavar="LIST", help="e.g. 'hang@3,counter-reset=5'; `--faults help` lists them")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG", help="further flags of vLLM, after --")


def _forge(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.forge.checkpoint import forge  # noqa: PLC0415
    from harness.forge.recipe import Recipe  # noqa: PLC0415

    given = {k: v for k, v in vars(arguments).items() if k not in ("command", "directory")}
    directory = forge(Path(arguments.directory), recipe := Recipe(**given))
    print(f"{directory}: {recipe.vocab_size} tokens, long-run acceptance {recipe.rule.long_run_acceptance():.4f}")
    return 0


def _fake_server(arguments: argparse.Namespace) -> int:
    from harness.fakes.command import Options, run  # noqa: PLC0415
    from harness.fakes.faults import describe_kinds  # noqa: PLC0415

    if arguments.faults == "help":
        print(describe_kinds())
        return 0
    return run(Options(**{k: v for k, v in vars(arguments).items() if k != "command"}))
