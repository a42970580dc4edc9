package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolraft/spoolraft/fsm"
)

// DefaultMaxPayloadBytes is the largest payload unless configured otherwise.
const DefaultMaxPayloadBytes = 1 << 20

// Limits of a connection.
const (
	maxHeaderBytes    = 64 << 10
	readHeaderTimeout = 10 * time.Second
	bodyTimeout       = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	// writeTimeout runs from the end of the headers, so that it covers a body,
	// the longest wait, what the Broker may take, and the answer.
	writeTimeout = bodyTimeout + maxWaitSeconds*time.Second + callTimeout + 30*time.Second
)

// Config is what a [Server] is made of.
type Config struct {
	Broker  Broker
	Cluster Cluster // nil: there are no calls about it
	Keys    *Keys   // nil only with AnyKey
	AnyKey  bool    // every bearer key has every scope

	MaxPayloadBytes int64 // 0: DefaultMaxPayloadBytes

	Logger    *slog.Logger         // nil: log nothing
	AccessLog bool                 // a line a request
	Metrics   *prometheus.Registry // nil: one of its own
	Version   string               // for /healthz
}

// Server answers the public API. It is an [http.Handler].
type Server struct {
	broker          Broker
	cluster         Cluster
	keys            *Keys
	anyKey          bool
	maxPayloadBytes int64
	logger          *slog.Logger
	accessLog       bool
	registry        *prometheus.Registry
	metrics         *requestMetrics
	version         string
	bodyTimeout     time.Duration

	echo  *echo.Echo
	allow map[string]string // by path of a route
	calls sync.Pool

	requestPrefix string
	requestCount  atomic.Uint64

	draining context.Context // over once the server shuts down
	drain    context.CancelCauseFunc
}

// errDraining is why a request's context ends at shutdown.
var errDraining = errors.New("the server is shutting down")

// New returns a server, or what is wrong with the configuration.
func New(config Config) (*Server, error) {
	s := &Server{
		broker:          config.Broker,
		cluster:         config.Cluster,
		keys:            config.Keys,
		anyKey:          config.AnyKey,
		maxPayloadBytes: config.MaxPayloadBytes,
		logger:          config.Logger,
		accessLog:       config.AccessLog && config.Logger != nil,
		registry:        config.Metrics,
		version:         config.Version,
		bodyTimeout:     bodyTimeout,
	}
	switch {
	case s.broker == nil:
		return nil, errors.New("a broker is needed")
	case s.keys == nil && !s.anyKey:
		return nil, errors.New("keys are needed, unless any key is to be accepted")
	case s.maxPayloadBytes < 0 || s.maxPayloadBytes > fsm.MaxPayloadBytes:
		return nil, fmt.Errorf("the largest payload must be from 1 to %d bytes", fsm.MaxPayloadBytes)
	}
	if s.maxPayloadBytes == 0 {
		s.maxPayloadBytes = DefaultMaxPayloadBytes
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.registry == nil {
		s.registry = prometheus.NewRegistry()
	}
	var err error
	if s.metrics, err = newRequestMetrics(s.registry); err != nil {
		return nil, err
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	s.requestPrefix = hex.EncodeToString(id[:]) + "-"
	s.calls.New = func() any { return new(call) }
	s.draining, s.drain = context.WithCancelCause(context.Background())
	s.register()
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The router looks at the escaped path where there is one. Escapes that stand
	// for themselves must not hide a route; an escaped slash must not make one.
	if raw := r.URL.RawPath; raw != "" && !strings.Contains(strings.ToLower(raw), "%2f") {
		u := *r.URL
		u.RawPath = ""
		copied := *r
		copied.URL = &u
		r = &copied
	}
	s.echo.ServeHTTP(w, r)
}

// HTTPServer returns an [http.Server] that suits the API: limits on headers and
// idle connections, and none on a request's whole time, since receives wait.
// Its Shutdown ends waiting receives.
func (s *Server) HTTPServer() *http.Server {
	h := &http.Server{
		Handler:           s,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return s.draining },
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
	}
	h.RegisterOnShutdown(func() { s.drain(errDraining) })
	return h
}
