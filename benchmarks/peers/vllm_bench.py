"""The handler of `vllm bench serve`, driven in a closed loop; runs in the engine's environment, not in ours.

usage: vllm_bench.py URL MODEL STREAMS PROMPTS OUTPUT_TOKENS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
from vllm.benchmarks.lib.endpoint_request_func import RequestFuncInput, async_request_openai_completions


async def measure(url: str, model: str, streams: int, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
    """Send every prompt, `streams` at a time, over a session as `bench serve` makes it."""
    slots = asyncio.Semaphore(streams)
    connector = aiohttp.TCPConnector(limit=streams, limit_per_host=streams, force_close=False)
    async with aiohttp.ClientSession(connector=connector, trust_env=True) as session:

        async def one(prompt: list[int]) -> Any:
            async with slots:
                asked = RequestFuncInput(
                    prompt=prompt,
                    api_url=f"{url}/v1/completions",
                    prompt_len=len(prompt),
                    output_len=tokens,
                    model=model,
                    ignore_eos=True,
                    extra_body={"temperature": 0},
                )
                return await async_request_openai_completions(request_func_input=asked, session=session)

        cpu = time.process_time()
        answers = await asyncio.gather(*map(one, prompts))
        cpu = time.process_time() - cpu
    return {
        "cpu_s": cpu,
        "requests": [
            {
                "tokens": a.output_tokens,
                "ttft_ms": a.ttft * 1e3,
                "whole_ms": a.ttft * 1e3,  # its clock begins before the request is made JSON
                "rate": (a.output_tokens - 1) / (a.latency - a.ttft) if a.latency > a.ttft else None,
                "error": None if a.success else a.error or "it says no reason",
            }
            for a in answers
        ],
    }


if __name__ == "__main__":
    url, model, streams, prompts, tokens = sys.argv[1:]
    ids = json.loads(Path(prompts).read_text("utf-8"))
    sys.stdout.write(json.dumps(asyncio.run(measure(url, model, int(streams), ids, int(tokens)))) + "\n")
