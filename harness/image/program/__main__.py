"""Where Python starts in the image; `harness.image.payload` lays the package out beside this file."""

import sys

if sys.version_info < (3, 8):  # noqa: UP036  # the image's Python, not the harness's
    sys.stdout.write("qualify: error: the image's python3 is older than 3.8, which the overlay needs\n")
    sys.exit(1)

from harness.image.program.main import main

sys.exit(main(sys.argv[1:]))
