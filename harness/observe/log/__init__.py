"""vLLM's log as typed events: pure, streaming, in constant memory, driven by the forms of its lines.

blocks     bytes -> blocks of whole lines, with offset and line number
scan       blocks -> lines that may say something, and which forms to try on them
records    one line -> what its writers wrote: process, level, time, text
forms      text -> what it says as data: one entry per form
events     all of these together
facts      events -> what the log as a whole says, each value with its line
late       events -> which kernels were compiled or first loaded late
"""

from harness.observe.log.event import Event, Kind, Value
from harness.observe.log.events import events, read_chunks

__all__ = ["Event", "Kind", "Value", "events", "read_chunks"]
