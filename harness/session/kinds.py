"""Ask one server for each kind of request of the course."""

from __future__ import annotations

from collections.abc import Iterator

from harness.client.asks import Sampling
from harness.config.kinds import RequestKind
from harness.records import RequestRecord
from harness.session.asking import Wanted
from harness.session.live import LiveLaunch
from harness.words import Step


def ask_kinds(server: LiveLaunch) -> Iterator[tuple[RequestKind, RequestRecord]]:
    """Each kind once, in a window and between memory samples of its own; nothing more once the server has died."""
    profile = server.plan.profile
    for number, kind in enumerate(profile.course.kinds):
        if server.death():
            return
        wanted = Wanted(profile.kind_tokens(kind), kind.output_tokens, Sampling.of(kind), kind=kind.name)
        server.sample_memory()
        [(request, _)] = server.ask(Step.REQUEST_KINDS, [wanted], pass_number=number)
        server.sample_memory()
        yield kind, request
