package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Every connection to the peer port starts with a preamble, which the acceptor
// answers with one byte. So a connection reaches the node that it was meant for,
// in the cluster that it was meant for, or nobody.

const (
	preambleMagic   = "SPLR"
	protocolVersion = 1
	maxNameLen      = 255 // of each name in a preamble
)

type connKind uint8

const (
	connRaft connKind = 1
	connLink connKind = 2
)

// admission is the acceptor's answer.
type admission uint8

const (
	admitted       admission = 0
	refusedTarget  admission = 1 // somebody else has this address now
	refusedCluster admission = 2
	refusedVersion admission = 3
	refusedNotYet  admission = 4 // starting or stopping
)

func (a admission) err() error {
	switch a {
	case admitted:
		return nil
	case refusedTarget:
		return errors.New("another node answers at its address")
	case refusedCluster:
		return errors.New("it belongs to another cluster")
	case refusedVersion:
		return errors.New("it speaks another version of the peer protocol")
	case refusedNotYet:
		return errors.New("it is not ready")
	default:
		return errors.New("it answered something that is not the peer protocol")
	}
}

type preamble struct {
	version uint8
	kind    connKind
	cluster string
	from    raftID
	to      raftID
	address string // where from is dialled; without a host: where it calls from
	started int64  // when from was started, see [Peer]
}

var errNoPreamble = errors.New("not the peer protocol")

func (p preamble) bytes() []byte {
	b := append([]byte(preambleMagic), p.version, byte(p.kind))
	for _, s := range [...]string{p.cluster, string(p.from), string(p.to), p.address} {
		s = s[:min(len(s), maxNameLen)]
		b = append(append(b, byte(len(s))), s...)
	}
	return binary.BigEndian.AppendUint64(b, uint64(p.started))
}

// readPreamble reads no more than a preamble holds, whatever comes.
func readPreamble(r io.Reader) (p preamble, err error) {
	var head [len(preambleMagic) + 2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return p, fmt.Errorf("%w: %w", errNoPreamble, err)
	}
	p.version, p.kind = head[len(preambleMagic)], connKind(head[len(preambleMagic)+1])
	if string(head[:len(preambleMagic)]) != preambleMagic || (p.kind != connRaft && p.kind != connLink) {
		return p, errNoPreamble
	}
	var names [4]string
	for i := range names {
		var buf [1 + maxNameLen]byte
		if _, err := io.ReadFull(r, buf[:1]); err != nil {
			return p, fmt.Errorf("%w: %w", errNoPreamble, err)
		}
		n := int(buf[0])
		if _, err := io.ReadFull(r, buf[1:1+n]); err != nil {
			return p, fmt.Errorf("%w: %w", errNoPreamble, err)
		}
		names[i] = string(buf[1 : 1+n])
	}
	var started [8]byte
	if _, err := io.ReadFull(r, started[:]); err != nil {
		return p, fmt.Errorf("%w: %w", errNoPreamble, err)
	}
	p.cluster, p.from, p.to, p.address = names[0], raftID(names[1]), raftID(names[2]), names[3]
	p.started = int64(binary.BigEndian.Uint64(started[:]))
	return p, nil
}

// admit checks a preamble for the node self of cluster; "" is a node that has
// none yet.
func (p preamble) admit(self raftID, cluster string) admission {
	switch {
	case p.version != protocolVersion:
		return refusedVersion
	case p.to != self:
		return refusedTarget
	case cluster == "":
		return refusedNotYet
	case p.cluster != cluster:
		return refusedCluster
	default:
		return admitted
	}
}
