"""The judge: every gate with evidence that must fail it and evidence that must pass it."""
