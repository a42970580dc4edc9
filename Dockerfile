# One image, two ways to it. Each ends in the same few files on nothing.
#
#   make image                        the binary is built here and copied in: needs no other image
#   docker build --target source .    everything is built inside: needs a Go image, see GO_IMAGE
#
# The target that needs nothing comes first, since the classic builder builds
# every stage up to the one asked for.

ARG GO_IMAGE=golang:1.26

FROM scratch AS host
COPY out/image/spoolraft /spoolraft
# A new volume takes its owner from this directory.
COPY --chown=65532:65532 out/image/data /data
USER 65532:65532
ENV SPOOLRAFT_DATA=/data TMPDIR=/data
VOLUME /data
EXPOSE 8080 7000 7946 7946/udp
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 CMD ["/spoolraft", "healthcheck"]
ENTRYPOINT ["/spoolraft"]
CMD ["serve"]

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /image/spoolraft ./cmd/spoolraft && mkdir /image/data

FROM scratch AS source
COPY --from=build /image/spoolraft /spoolraft
COPY --from=build --chown=65532:65532 /image/data /data
USER 65532:65532
ENV SPOOLRAFT_DATA=/data TMPDIR=/data
VOLUME /data
EXPOSE 8080 7000 7946 7946/udp
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 CMD ["/spoolraft", "healthcheck"]
ENTRYPOINT ["/spoolraft"]
CMD ["serve"]
