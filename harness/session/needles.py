"""Ask one server for facts that are planted in a long prompt."""

from __future__ import annotations

from harness.client.texts import DEPTHS
from harness.records import OutputRecord, RequestRecord
from harness.session.asking import Wanted
from harness.session.live import LiveLaunch
from harness.words import Step


def ask_needles(server: LiveLaunch) -> list[tuple[RequestRecord, OutputRecord]]:
    """One request per depth, in prompts of the longest context; none where the prompts are ids, which say nothing."""
    course = server.plan.profile.course
    if course.prompts != "text":
        return []
    wanted = [Wanted(course.longest_context, course.needle_output_tokens)] * len(DEPTHS)
    return server.ask(Step.NEEDLE, wanted, context_tokens=course.longest_context)
