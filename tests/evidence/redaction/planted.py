"""One thing of every kind, and how it shows. None of these was ever anybody's.

They are put together here, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

from harness.evidence.redaction.kinds import Kind

LETTERS = "aBcDeFgHiJkLmNoPqRsTuVwXyZ"
DIGITS = "0123456789"
JWT = f"eyJ{'hbGciOiJIUzI1NiJ9'}.eyJ{'zdWIiOiJxdWFsaWZ5In0'}.{LETTERS}{DIGITS}"
KEY_LINES = [f"MIIEvQ{'IBADANBgkqhkiG9w0BAQEFAASC' * 2}{n}" for n in range(3)]
PRIVATE_KEY = "\n".join((f"-----BEGIN {'RSA PRIVATE'} KEY-----", *KEY_LINES, f"-----END {'RSA PRIVATE'} KEY-----"))

SHOWN: dict[str, tuple[Kind, str, str]] = {
    # by name: kind, text in which it shows, and what must be gone
    "hub token": (Kind.TOKEN, f"logging in with hf_{LETTERS}", f"hf_{LETTERS}"),
    "forge token": (Kind.TOKEN, f"ghp_{LETTERS}{DIGITS}", f"ghp_{LETTERS}{DIGITS}"),
    "fine forge token": (Kind.TOKEN, f"x github_pat_11{LETTERS}_{DIGITS} y", f"github_pat_11{LETTERS}_{DIGITS}"),
    "api token": (Kind.TOKEN, f"key sk-{LETTERS}{DIGITS}.", f"sk-{LETTERS}{DIGITS}"),
    "project api token": (Kind.TOKEN, f"sk-proj-{DIGITS}_{LETTERS}", f"sk-proj-{DIGITS}_{LETTERS}"),
    "vendor token": (Kind.TOKEN, f"nvapi-{LETTERS}-{DIGITS}", f"nvapi-{LETTERS}-{DIGITS}"),
    "package token": (Kind.TOKEN, f"npm_{LETTERS}{DIGITS}", f"npm_{LETTERS}{DIGITS}"),
    "cloud key id": (Kind.TOKEN, f"id AKIA{'QUALIFY' * 2}22 used", f"AKIA{'QUALIFY' * 2}22"),
    "json web token": (Kind.TOKEN, f"cookie={JWT};", JWT),
    "bearer header": (Kind.TOKEN, "Authorization: Bearer 0pen.sesame-77", "0pen.sesame-77"),
    "basic header": (Kind.TOKEN, "'authorization': 'Basic cXVhbGlmeTpwdw=='", "cXVhbGlmeTpwdw=="),
    "remote with password": (Kind.SECRET, "https://bot:s3same@example.com/a/b.git", "bot:s3same"),
    "remote with token": (Kind.SECRET, "git clone https://opensesame77@example.com/a/b", "opensesame77"),
    "variable": (Kind.SECRET, "export DB_PASSWORD=0pensesame", "0pensesame"),
    "variable of a number": (Kind.SECRET, "VAULT_SECRET=481516", "481516"),
    "variable in JSON": (Kind.SECRET, '"WANDB_API_KEY": "f00dfacef00dface"', "f00dfacef00dface"),
    "variable in JSON in JSON": (Kind.SECRET, r"{\"S3_SECRET_KEY\": \"f00d+face\"}", "f00d+face"),
    "variable of a list": (Kind.SECRET, '["MY_TOKEN=sesame-open"]', "sesame-open"),
    "option in a log": (Kind.SECRET, "args: {'api_key': ['sesame-open'], 'x': 1}", "sesame-open"),
    "option in argv": (Kind.SECRET, '"--api-key",\n  "sesame-open"', "sesame-open"),
    "option on a line": (Kind.SECRET, "vllm serve m --api-key sesame-open --x", "sesame-open"),
    "e-mail": (Kind.EMAIL, "by Jo Doe <jo.doe+x@example.org>", "jo.doe+x@example.org"),
    "GPU": (Kind.UUID, "GPU-95391e6d-190d-66e6-ede2-bcb386840309", "GPU-95391e6d-190d-66e6-ede2-bcb386840309"),
    "slice of a GPU": (Kind.UUID, "MIG-95391e6d-190d-66e6-ede2-bcb386840309", "95391e6d-190d-66e6-ede2-bcb386840309"),
    "serial": (Kind.SERIAL, "Serial Number : 1654922000123", "1654922000123"),
    "serial in JSON": (Kind.SERIAL, '"serial": "PF3XK72Q"', "PF3XK72Q"),
    "network card": (Kind.MAC, "ether 02:42:ac:1f:00:2b txqueuelen", "02:42:ac:1f:00:2b"),
    "address of a URL": (Kind.ADDRESS, "tcp://203.0.113.77:29500", "203.0.113.77"),
    "address of a client": (Kind.ADDRESS, 'INFO:  203.0.113.78:51234 - "GET /metrics"', "203.0.113.78"),
    "named address": (Kind.ADDRESS, '"IPAddress": "203.0.113.79"', "203.0.113.79"),
    "private address": (Kind.ADDRESS, "eth0 has 192.168.77.12 now", "192.168.77.12"),
    "other private address": (Kind.ADDRESS, "eth0 has 10.77.12.9, up", "10.77.12.9"),
    "long address": (Kind.ADDRESS, "fe80::42:acff:fe11:2 on eth0", "fe80::42:acff:fe11:2"),
    "host in NCCL": (Kind.HOST, "rigel-07:412:987 [0] NCCL INFO Bootstrap", "rigel-07"),
    "host in XML": (Kind.HOST, '<testsuite hostname="rigel-08">', "rigel-08"),
    "host in JSON": (Kind.HOST, '"Hostname": "rigel-09"', "rigel-09"),
    "host of an option": (Kind.HOST, "vllm serve m --host rigel-11 --x", "rigel-11"),
    "host in argv": (Kind.HOST, '"--host",\n  "rigel-12"', "rigel-12"),
    "host in a log": (Kind.HOST, "args: {'host': 'rigel-13', 'port': 1}", "rigel-13"),
    "host of a URL": (Kind.HOST, "http://rigel:8000/v1", "rigel"),
    "host of a zone": (Kind.HOST, "joined rigel-10.lab.internal", "rigel-10.lab.internal"),
    "home": (Kind.USER, "/home/jdoe/models/m", "jdoe"),
    "home elsewhere": (Kind.USER, r"C:\\Users\\jdoe\\m", "jdoe"),
    "home of another letter": (Kind.USER, "/home/jörg/models/m", "jörg"),
    "folder of tests": (Kind.USER, "/tmp/pytest-of-jdoe/x", "jdoe"),
    "cache of a compiler": (Kind.USER, "/tmp/torchinductor_jdoe/ab", "jdoe"),
    "account": (Kind.USER, "USER=jdoe", "jdoe"),
}
"""By what it is: its kind, a text that shows it, and what of the text is private."""

STAYS: dict[str, str] = {
    "the account of our containers": '"USER=qualify", "LOGNAME=qualify", "qualify.image.lock-sha256"',
    "kernel": "_fwd_kernel_stage1_BLOCK_M_64 triton_red_fused_add_rms_norm_0 cutlass_80_tensorop_s1688",
    "kernel's constants": "HEAD_KEY=64, HAS_KEY=True, NUM_TOKENS=8192, KEY_SIZE: 128",
    "commit": "63b77c803149ee3a4b9b2f5c8f8e4c1d2a3b4c5d",
    "hash": "sha256 605f2992b358e6e9d3c94bbca7f3ecbeac74d170e17fcf97f7ae13bf4c104515",
    "image": "vllm/vllm-openai@sha256:605f2992b358e6e9d3c94bbca7f3ecbeac74d170e17fcf97f7ae13bf4c104515",
    "image with a port": "docker://registry.example.com:5000/a@sha256:605f2992b358e6e9d3c94bbca7f3ecbeac74d170e17f",
    "token ids": '"token_ids": [39, 317, 265], "prompt_tokens": 16, "max_tokens": 8',
    "options about tokens": "max_num_batched_tokens=8192 TOKENIZERS_PARALLELISM=false tokenizer='m' key=value",
    "this host": "127.0.0.1:8000 0.0.0.0 localhost http://localhost:8000 ::1 [::]",
    "version": "0.25.1 version 13.0.0.1 v10.1.2.3 nvidia-cublas==13.0.0.19 9.13.0.50",
    "version of a library": '"nvidia-curand": "10.4.0.35"',
    "short version": "torch 2.9.0+cu130 and 10.1.2",
    "name space": "vllm::unified_attention c10::cuda torch::nn at 12:34:56",
    "public server": "https://github.com/a/b.git git@github.com:a/b.git https://huggingface.co/x",
    "route": "GET /v1/models /health /metrics",
    "path of nobody": "/usr/lib/python3/dist-packages/vllm /root/.cache /home/user/x /tmp/results",
    "words": "bearer authentication, a serial number is printed, secret: none, sk-learn-contrib",
    "nothing there": '"API_KEY": null, "HF_TOKEN": "<redacted>", PASSWORD=***',
    "nobody's card": "00:00:00:00:00:00 ff:ff:ff:ff:ff:ff",
    "module": "torch._inductor.internal foo.local config.home Path.home()",
    "container": '"Hostname": "3f2a9c0d1e4b"',
}
"""What looks like it and is nothing private."""
