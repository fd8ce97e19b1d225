# The image of an arm: a pinned base and what its lock puts onto it.
#
# `qualify build` sends this file with its context, a tar that holds payload/ and nothing else: the
# program that does the work (harness/image/program), the manifest, and the files by their SHA-256.
# Both builders read it, so it uses nothing that only one of them knows.

# name@sha256:digest
ARG BASE_IMAGE

# Every copy of every file is held against the lock. A stack with [build] mode = "source" is built here,
# so that of what its build command leaves behind only what it installs gets into the image.
FROM ${BASE_IMAGE} AS build
USER 0:0
COPY payload /.qualify
RUN ["python3", "-I", "-S", "-B", "/.qualify/program", "build"]

# The files are checked again, laid over the base, checked once more; /.qualify is removed.
FROM ${BASE_IMAGE}
ARG BASE_USER
USER 0:0
COPY --from=build /.qualify /.qualify
RUN ["python3", "-I", "-S", "-B", "/.qualify/program", "apply"]
# As the base has it; '' where it names nobody.
USER ${BASE_USER}
