"""Lines of kernels that come late, of the HTTP front end and of serving."""

from __future__ import annotations

from harness.observe.log.event import Kind
from harness.observe.log.forms.form import DECIMAL, Form, form

FORMS: tuple[Form, ...] = (
    # --- kernels that come late
    form(
        Kind.JIT_ARMED, "Kernel JIT monitor activated", r"Kernel JIT monitor activated(?:.{0,100}mode=(?P<mode>\w+))?"
    ),
    form(
        Kind.LATE_JIT,
        "JIT compilation during inference: ",
        r"^(?:.{0,200}?\b)??(?P<backend>\w{1,40}) (?P<event>(?:kernel |autotune/warmup candidate )?JIT compilation) "
        r"during inference: "
        r"(?P<kernel>[^\s(]{1,500}?)(?: \((?P<detail>.*)\))?\."
        r"(?: This causes a latency spike[^.]{0,200}(?:\. (?P<specialisation>.+)|\.?)| .*)?$",
    ),
    form(
        Kind.KERNEL_PROGRESS,
        " cute.compile] ",
        r"\[(?P<library>\w{1,40}) cute\.compile\] compile-(?P<stage>start|done|failed)\b(?: number=\d{1,15})?"
        rf"(?: duration_s=(?P<seconds>{DECIMAL}))?(?: total_compile_s={DECIMAL})?"
        r"(?: target=(?P<target>\S{1,500}))?(?: cache_key=(?P<cache_key>\S{1,100}))?",
    ),
    form(
        Kind.KERNEL_COMPILE,
        " cute.compile] ",
        # A load for which it waited until another process had compiled is a load; the status says so too.
        r"\[(?P<library>\w{1,40}) cute\.compile\] (?!python_stack\b)"
        r"(?P<outcome>disk-hit(?=-after-wait\b)|[\w-]{1,40})(?:-after-wait)?(?: reason=(?P<reason>\S{1,100}))?"
        r"(?: target=(?P<target>\S{1,500}))?(?: status=(?P<status>\S{1,100}))?(?: cache_key=(?P<cache_key>\S{1,100}))?"
        # What the kernel's object holds; B12X cuts it at 1,200 characters.
        r"(?: attrs=\{(?P<attrs>[^{}]{1,1300}))?"
        r"(?:.{0,2000}? spec_hash=(?P<spec_hash>\w{1,100})(?: spec=(?P<spec>\S{1,4000}))?)?",
    ),
    form(
        Kind.AUTOTUNED, "Triton autotuning for function ", r"Triton autotuning for function (?P<kernel>[^\s,]{1,200})"
    ),
    # --- serving
    form(Kind.HTTP_BEGIN, "Starting vLLM ", r"Starting vLLM (?:API )?server (?:\d+ )?on (?P<address>\S+)"),
    form(Kind.HTTP_READY, "Application startup complete", r"(?:^|[\s|])Application startup complete\.\s*$"),
    form(
        Kind.STATS,
        "Avg prompt throughput: ",
        rf"(?:Engine (?P<engine>\d{{1,6}}): |(?P<engines>\d{{1,6}}) Engines Aggregated: )?"
        rf"Avg prompt throughput: (?P<prompt_rate>{DECIMAL}) tokens/s, "
        rf"Avg generation throughput: (?P<generation_rate>{DECIMAL}) tokens/s, "
        r"Running: (?P<running>\d+) reqs(?:, Swapped: (?P<swapped>\d+) reqs)?, "
        r"(?:Waiting|Pending): (?P<waiting>\d+) reqs"
        r"(?:.{0,200}?, Preemptions: (?P<preemptions>\d+))?"
        rf"(?:.{{0,200}}? KV cache usage: (?P<kv_percent>{DECIMAL})%)?"
        rf"(?:.{{0,200}}? Prefix cache hit rate: (?P<prefix_hit_percent>{DECIMAL})%)?",
    ),
    form(
        Kind.SPEC_DECODING,
        "SpecDecoding metrics: ",
        r"SpecDecoding metrics: .{0,400}?Accepted: (?P<accepted>\d+) tokens, Drafted: (?P<drafted>\d+) tokens"
        r"(?:, Per-position acceptance rate: (?P<per_position>[\d., ]{0,1000}\d))?",
    ),
    form(Kind.SHUTDOWN, "[shutdown] API server: ", r"\[shutdown\] API server: shutdown triggered"),
    form(Kind.SHUTDOWN, "Shutting down", r"Shutting down FastAPI HTTP server|^Shutting down$"),
)
