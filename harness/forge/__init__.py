"""Known-answer models: checkpoints that real vLLM serves and whose every answer is arithmetic."""
