"""A `docker` whose `buildx build` is the BuildKit inside the engine, which has had one since 18.09.

`docker buildx` is a plugin that machines may lack; what it drives is not. Arguments and output are
those of `docker buildx build --progress plain`, as far as `harness.image.buildx` uses them.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

Field = tuple[int, Any]


class Engine(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["DOCKER_HOST"].removeprefix("unix://"))


def fields(data: bytes) -> Iterator[Field]:
    """Numbers and values of a protocol buffer's fields."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            assert key & 7 == 2, key
            length = number()
            yield key >> 3, data[at : at + length]
            at += length


class Progress:
    """BuildKit's messages as lines, each with the number of its step."""

    def __init__(self) -> None:
        self.steps: dict[bytes, int] = {}
        self.named: set[bytes] = set()

    def lines(self, message: bytes) -> Iterator[bytes]:
        for field, value in fields(message):
            one = dict(fields(value))
            if field == 1:  # a vertex: digest 1, name 3, error 7
                step = self.steps.setdefault(one[1], len(self.steps) + 1)
                if one[1] not in self.named:
                    self.named.add(one[1])
                    yield b"#%d %s" % (step, one[3])
                if 7 in one:
                    yield b"#%d ERROR: %s" % (step, one[7])
            elif field == 3:  # output: vertex 1, text 4
                step = self.steps.setdefault(one[1], len(self.steps) + 1)
                for line in one[4].rstrip(b"\n").split(b"\n"):
                    yield b"#%d 0.123 %s" % (step, line)


def build(arguments: argparse.Namespace) -> int:
    query = {
        "version": "2",
        "t": arguments.tag,
        "nocache": "1",
        "networkmode": arguments.network,
        "buildargs": json.dumps(dict(pair.split("=", 1) for pair in arguments.build_arg)),
        "labels": json.dumps(dict(pair.split("=", 1) for pair in arguments.label)),
    }
    engine = Engine("engine")
    engine.request("POST", f"/v1.41/build?{urlencode(query)}", body=sys.stdin.buffer.read())
    answer = engine.getresponse()
    progress = Progress()
    for raw in answer:
        line = json.loads(raw)
        if line.get("id") == "moby.buildkit.trace":
            for text in progress.lines(base64.b64decode(line["aux"])):
                sys.stderr.buffer.write(text + b"\n")
                sys.stderr.flush()
        elif line.get("id") == "moby.image.id":
            Path(arguments.iidfile).write_text(line["aux"]["ID"], "ascii")
        elif "error" in line or "message" in line:
            sys.stderr.write(f"ERROR: {line.get('error') or line['message']}\n")
            return 1
    return 0


def main() -> int:
    if sys.argv[1:] == ["buildx", "version"]:
        sys.stdout.write("the engine's own BuildKit\n")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("buildx", choices=["buildx"])
    parser.add_argument("build", choices=["build"])
    parser.add_argument("--builder", choices=["default"], required=True)
    parser.add_argument("--progress", choices=["plain"], required=True)
    parser.add_argument("--load", action="store_true", required=True)
    parser.add_argument("--no-cache", action="store_true", required=True)
    for name in ("--network", "--tag", "--iidfile"):
        parser.add_argument(name, required=True)
    for name in ("--build-arg", "--label"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("context", choices=["-"])
    return build(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
