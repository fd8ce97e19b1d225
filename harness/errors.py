"""The few errors that reach a user; each says what is wrong, where, and what mends it.

They are raised where the fault is found and printed in one place, `harness.cli.main`.
"""

from __future__ import annotations

from harness.words import ExitCode


class QualifyError(Exception):
    """Base of every error that a user is shown without a traceback."""

    exit_code: ExitCode = ExitCode.USAGE


class ConfigError(QualifyError):
    """A profile, stack, variable or option cannot be used as it is."""


class BundleError(QualifyError):
    """A bundle cannot be read: missing file, newer schema, broken record."""


class RefusedBundle(BundleError):  # noqa: N818  # the word of the report
    """A bundle that no session leaves: what is in it is not looked at, so it does not verify."""

    exit_code = ExitCode.NOT_VERIFIED


class SetupFailure(QualifyError):  # noqa: N818  # the word of the verdict
    """The host or the environment cannot run what was asked."""

    exit_code = ExitCode.SETUP_FAILURE
