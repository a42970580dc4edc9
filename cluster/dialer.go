package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// dialer opens connections to peers, wherever they are now.
type dialer struct {
	network   Network
	discovery Discovery
	self      raftID
	cluster   func() string
	where     func() (address string, started int64) // what it says of this node
}

// dial connects to a node and shows it the preamble. Where it returns an error,
// the node has been asked nothing.
func (d *dialer) dial(kind connKind, to raftID, timeout time.Duration) (net.Conn, error) {
	return d.dialInto(d.cluster(), kind, to, timeout)
}

// dialInto is dial by a node that may not belong to that cluster yet.
func (d *dialer) dialInto(cluster string, kind connKind, to raftID, timeout time.Duration) (net.Conn, error) {
	address, ok := d.discovery.Address(to.node(), to.instance())
	if !ok {
		return nil, fmt.Errorf("%s: its address is not known", to)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := d.network.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := d.introduce(conn, cluster, kind, to, deadline); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", to, err)
	}
	return conn, nil
}

func (d *dialer) introduce(conn net.Conn, cluster string, kind connKind, to raftID, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	p := preamble{version: protocolVersion, kind: kind, cluster: cluster, from: d.self, to: to}
	p.address, p.started = d.where()
	if _, err := conn.Write(p.bytes()); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	if err := admission(answer[0]).err(); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}
