# The manager, for config/manager: docker build -t multiqueue:0.1.0 .
# tests/integration/test_image.py runs these very steps without Docker. `make release` builds it for amd64 and arm64, and
# begins with the digest that this tag has at that time.
ARG PYTHON=python:3.11.13-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
COPY requirements-build.lock requirements.lock ./
# Without pip of its own: what runs needs none.
RUN python -m venv --without-pip /opt/build && python -m venv --without-pip /opt/multiqueue
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m pip --python /opt/build install --require-hashes --requirement requirements-build.lock \
    && python -m pip --python /opt/multiqueue install --no-compile --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY multiqueue multiqueue
COPY dispatchers dispatchers
RUN python -m pip --python /opt/build wheel --no-build-isolation --no-deps --wheel-dir /opt/wheels . \
    && python -m pip --python /opt/multiqueue install --no-compile --no-deps --no-index /opt/wheels/*.whl
# The tree is read-only when it runs, so bytecode is made here; and no file's time is looked at again.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/multiqueue/lib

FROM ${PYTHON}
LABEL org.opencontainers.image.title="multiqueue" \
      org.opencontainers.image.description="One queue for every GPU cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/multiqueue /opt/multiqueue
# The only place that is written to is a temporary one: config/manager mounts memory there.
ENV PATH=/opt/multiqueue/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /tmp
USER 65532:65532
ENTRYPOINT ["multiqueue"]
CMD ["run"]
