"""Pure parsers of what a server prints and exposes, and the samplers that watch it."""
