# The operator's image: the dependencies that requirements/run.txt locks by hash, and the operator. No pip, no root.
#     docker build -t flamectl-operator:0.1.0 .
# No step depends on the architecture and nothing is compiled from C or Rust, so it builds for each platform that the locked
# wheels are there for: docker buildx build --platform linux/amd64,linux/arm64 ...
# tests/image replays every step of this file; it knows the instructions that are used here and no others.
ARG PYTHON=3.14
# To pin the base as well, give it by digest: --build-arg BASE=python@sha256:...
ARG BASE=python:${PYTHON}-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
COPY requirements requirements
RUN python -m venv --without-pip /opt/flamectl-operator \
    && python -m pip --python /opt/flamectl-operator/bin/python install --no-compile --only-binary :all: \
        --require-hashes --requirement requirements/run.txt
# What builds the wheel stays in this stage.
RUN python -m pip install --only-binary :all: --require-hashes --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && python -m pip --python /opt/flamectl-operator/bin/python install --no-compile --no-deps --no-index dist/*.whl
# The operator sends requests of its own. The package `kubernetes` imports its generated classes (one for each kind and for each
# API group, 120 MB when compiled) when somebody first uses one, which the operator never does.
RUN python -c "from pathlib import Path; \
        lib = Path('/opt/flamectl-operator/lib'); \
        [file.unlink() for part in ('api', 'models') for file in lib.glob(f'*/site-packages/kubernetes/**/client/{part}/*.py') \
            if file.name != '__init__.py']"
# Ahead of time, for the root file system will be read-only; by the content, not the time, of the sources, so that the same
# sources give the same files.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/flamectl-operator/lib

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="flamectl-operator" \
      org.opencontainers.image.description="A Kubernetes operator that runs Flame clusters" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.url="https://github.com/xflops/flame" \
      org.opencontainers.image.base.name="${BASE}"
RUN python -m pip uninstall --yes pip
COPY --from=build /opt/flamectl-operator /opt/flamectl-operator
# The user is in no /etc/passwd, and the client library looks for a home when it is imported.
ENV HOME=/ \
    PATH=/opt/flamectl-operator/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number, so that the kubelet can tell that it is not root (runAsNonRoot).
USER 65532:65532
ENTRYPOINT ["flamectl-operator"]
CMD ["run"]
