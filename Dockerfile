# Forgehand as a small image that runs without root.
#
#   docker build -t forgehand .
#
# The builder needs a Rust toolchain and a C compiler, nothing else; the image needs git, a shell
# and certificates. Toolchains of the repositories that are worked on are added by images made
# from this one.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY migrations migrations
COPY skills skills
COPY benches benches
COPY tests tests
COPY README.md app-manifest.yml ./
RUN cargo build --release --locked --bin forgehand

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --home-dir /var/lib/forgehand forgehand
COPY --from=build /build/target/release/forgehand /usr/local/bin/forgehand
USER 10001:10001
WORKDIR /var/lib/forgehand
ENV FORGEHAND_SERVER__STATE_DIR=/var/lib/forgehand/state \
    FORGEHAND_SERVER__LISTEN=0.0.0.0:8080
EXPOSE 8080
VOLUME /var/lib/forgehand
ENTRYPOINT ["forgehand"]
CMD ["serve"]
