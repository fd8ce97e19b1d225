"""Lines of the model being loaded and compiled."""

from __future__ import annotations

from harness.observe.log.event import Kind
from harness.observe.log.forms.form import DECIMAL, Form, form

FORMS: tuple[Form, ...] = (
    # --- model
    form(Kind.LOAD_BEGIN, "Starting to load model ", r"Starting to load model (?P<model>.+?)(?:\.\.\.)?$"),
    form(Kind.LOAD_BEGIN, "Loading model from scratch", r"Loading model from scratch\.\.\."),
    form(Kind.DRAFTER, "Loading drafter model", r"Loading drafter model"),
    form(Kind.DRAFTER, "Detected MTP model. Sharing", r"Detected MTP model\. Sharing target model (?P<shared>\w+)"),
    form(
        Kind.DRAFTER, "draft model max model len", r"Overriding draft model max model len from \d+ to (?P<tokens>\d+)"
    ),
    form(Kind.WEIGHTS, "Loading weights took ", rf"Loading weights took (?P<seconds>{DECIMAL}) seconds"),
    form(Kind.MODEL_BUILT, "Initializing model took ", rf"Initializing model took (?P<seconds>{DECIMAL}) seconds"),
    form(
        Kind.MODEL_LOADED,
        "Model loading took ",
        rf"Model loading took (?P<gib>{DECIMAL}) GiB (?:memory )?and (?P<seconds>{DECIMAL}) seconds",
    ),
    # --- compilation and its caches
    form(
        Kind.CACHE_FOLDER,
        "Using cache directory: ",
        r"Using cache directory: (?P<folder>.{1,1000}?) for vLLM's torch\.compile",
    ),
    form(Kind.CACHE_OFF, "torch.compile cache is disabled", r"torch\.compile cache is disabled"),
    form(Kind.COMPILE_BEGIN, "Starting torch.compile", r"Starting torch\.compile"),
    form(Kind.COMPILE_BEGIN, "Warming up model for the compilation", r"Warming up model for the compilation"),
    form(Kind.COMPILE_BEGIN, "Dynamo bytecode transform", rf"Dynamo bytecode transform time: (?P<seconds>{DECIMAL}) s"),
    form(
        Kind.CACHE_HIT,
        "Directly load ",
        r"Directly load (?:the compiled graph(?:\(s\))? for (?P<shape>.{1,60}?) from the cache"
        rf"(?:, took (?P<seconds>{DECIMAL}) s)?|AOT compilation from path (?P<path>\S+))",
        trigger="ompil",
    ),
    form(Kind.CACHE_HIT, "fx graph cache hit for key ", r"fx graph cache hit for key (?P<key>\w+)"),
    form(
        Kind.CACHE_LOAD_FAILED,
        "due to a load failure",
        r"Compiling model again due to a load failure(?: from (?P<path>.{1,1000}?), reason: (?P<reason>.{1,500}))?",
        trigger="ompil",
    ),
    form(
        Kind.CACHE_MISS,
        "Compiling a graph for ",
        rf"Compiling a graph for (?P<shape>.{{1,60}}?) takes (?P<seconds>{DECIMAL}) s",
    ),
    form(Kind.CACHE_MISS, "saved AOT compiled function", r"saved AOT compiled function to (?P<path>\S+)"),
    form(Kind.CACHE_MISS, "fx graph cache miss for key ", r"fx graph cache miss for key (?P<key>\w+)"),
    form(Kind.CACHE_STORED, "Cache the graph ", r"Cache the graph (?:of|for) (?P<shape>.{1,60}?) for later use"),
    form(
        Kind.COMPILED,
        "torch.compile ",
        rf"torch\.compile (?:and initial (?P<together>profiling/warmup) run together )?(?:took|takes) "
        rf"(?P<seconds>{DECIMAL}) s in total",
    ),
    form(Kind.PROFILED, "profiling/warmup run took ", rf"Initial profiling/warmup run took (?P<seconds>{DECIMAL}) s"),
)
