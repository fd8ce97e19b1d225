"""Logs, scrapes, phases and samples, made up and real."""
