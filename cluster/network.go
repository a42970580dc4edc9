package cluster

import (
	"context"
	"net"
	"time"
)

// Network is how peers reach each other.
type Network interface {
	Listen(address string) (net.Listener, error)
	Dial(ctx context.Context, address string) (net.Conn, error)
}

type tcpNetwork struct{}

func (tcpNetwork) Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

func (tcpNetwork) Dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: 15 * time.Second}
	return d.DialContext(ctx, "tcp", address)
}
