package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/spoolraft/spoolraft/cluster"
	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/cli"
	"github.com/spoolraft/spoolraft/httpapi"
	"github.com/spoolraft/spoolraft/httpapi/faults"
)

const (
	// drainTimeout bounds how long calls under way may take to end.
	drainTimeout = 10 * time.Second
	// leaveTimeout bounds the handover of leadership and the closing of the log.
	leaveTimeout = 10 * time.Second
)

// node is one member of the cluster with its HTTP server.
type node struct {
	cluster *cluster.Node
	http    *http.Server
	broken  chan error // the HTTP server stopped by itself
	logger  *slog.Logger
}

// startNode starts a member that answers on the listener, which it owns. The
// injector is nil where no faults are asked for.
func startNode(ctx context.Context, config cluster.Config, api httpapi.Config, injector *faults.Injector, listener net.Listener) (*node, error) {
	config.Version, config.API = api.Version, listener.Addr().String()
	member, err := cluster.Start(ctx, config)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("the node could not start: %w", err)
	}
	n := &node{cluster: member, broken: make(chan error, 1), logger: config.Logger}
	api.Broker, api.Cluster = member, administration{member}
	api.Logger = config.Logger
	if api.Metrics, err = registry(member); err == nil {
		var handler *httpapi.Server
		if handler, err = httpapi.New(api); err == nil {
			n.http = handler.HTTPServer()
			if injector != nil {
				n.http.Handler = injector.Wrap(handler)
			}
		}
	}
	if err != nil {
		listener.Close()
		return nil, errors.Join(fmt.Errorf("the API could not start: %w", err), n.leave())
	}
	go func() { n.broken <- n.http.Serve(listener) }()
	return n, nil
}

func registry(member *cluster.Node) (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	all := append(member.Collectors(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// wait returns when ctx ends, with nil, or when the node can't go on.
func (n *node) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.cluster.Failed():
		if errors.Is(err, cluster.ErrRemoved) {
			return err
		}
		return fmt.Errorf("this node can't go on: %w", err)
	case err := <-n.broken:
		return fmt.Errorf("the API stopped: %w", err)
	}
}

// stop ends the node gently: the API first, so that no call is cut off.
func (n *node) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := n.http.Shutdown(ctx); err != nil {
		n.logger.Warn("calls were still under way when the API closed", "error", err)
		n.http.Close()
	}
	return n.leave()
}

func (n *node) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := n.cluster.Shutdown(ctx); err != nil {
		return fmt.Errorf("the node did not close cleanly; its data is safe: %w", err)
	}
	return nil
}

// ending is the end of a command over an error of its nodes.
func ending(err error) error {
	if errors.Is(err, cluster.ErrRemoved) {
		return removal{err}
	}
	return cli.Failure{Err: err}
}

// removal ends a node that is no member of its cluster any more.
type removal struct{ err error }

func (r removal) Error() string { return r.err.Error() }
func (r removal) Unwrap() error { return r.err }

// ExitCode is one of its own, so that a supervisor need not start the node again.
func (removal) ExitCode() int { return cli.ExitRemoved }

// listen opens the address of an API.
func listen(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use: stop what listens there, or choose another address with --%s", address, flag)
	default:
		return nil, fmt.Errorf("cannot listen on %s (--%s): %w", address, flag, reason(err))
	}
}

// reason is the innermost error of a failed listen.
func reason(err error) error {
	var number syscall.Errno
	var dns *net.DNSError
	switch {
	case errors.As(err, &number):
		return number
	case errors.As(err, &dns):
		return errors.New(dns.Err)
	default:
		return err
	}
}
