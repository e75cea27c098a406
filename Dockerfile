# One image for every process of Muster: only the command differs.
FROM python:3.13-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements/base.txt requirements/dev.txt requirements/
RUN python -m venv /opt/muster && /opt/muster/bin/pip install --require-hashes -r requirements/base.txt
# The build backend comes from the pins of development: nothing unpinned is fetched.
RUN python -m venv /opt/build && /opt/build/bin/pip install --require-hashes -r requirements/dev.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
COPY workers workers
COPY simulation simulation
COPY migrations migrations
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/muster/bin/pip install --no-deps /dist/*.whl \
    && /opt/muster/bin/python -m compileall -q /opt/muster

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="muster" \
      org.opencontainers.image.description="Admits GPU jobs by the whole group" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/muster /opt/muster
ENV PATH=/opt/muster/bin:$PATH PYTHONUNBUFFERED=1 MUSTER_DATA=/var/lib/muster MUSTER_RUNTIME=/run/muster
# /run/muster is one container's own; /var/lib/muster is shared by all.
RUN mkdir -p /var/lib/muster /run/muster && chown 10001:10001 /var/lib/muster /run/muster
USER 10001:10001
VOLUME /var/lib/muster
STOPSIGNAL SIGTERM
# A health check is a command's own: `muster health worker` beside `muster worker`.
ENTRYPOINT ["muster"]
CMD ["--help"]
