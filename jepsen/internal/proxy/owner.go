package proxy

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// ByOwner identifies a connection by the process that owns its other end.
// Names returns the processes to look among.
func ByOwner(names func() map[int]string) Identify {
	o := &owners{names: names}
	return func(remote, local *net.TCPAddr) string {
		l := &lookup{socket: socket{tableAddress(remote), tableAddress(local)}, found: make(chan string, 1)}
		o.find(l)
		return <-l.found
	}
}

// As identifies every connection as the same party's.
func As(party string) Identify {
	return func(_, _ *net.TCPAddr) string { return party }
}

// owners looks sockets up. To read the kernel's tables takes milliseconds, so
// one reading serves everybody who asked before it began.
type owners struct {
	names func() map[int]string

	mu      sync.Mutex
	waiting []*lookup
	reading bool
}

// lookup is one question.
type lookup struct {
	socket socket
	found  chan string // takes the answer, "" where there is none
}

// socket is a connection as the kernel writes it: own address, then peer.
type socket struct{ own, peer string }

func (o *owners) find(l *lookup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, l)
	if !o.reading {
		o.reading = true
		go o.read()
	}
}

// read answers until nobody waits.
func (o *owners) read() {
	for {
		o.mu.Lock()
		asked := o.waiting
		o.waiting = nil
		o.reading = len(asked) > 0
		o.mu.Unlock()
		if len(asked) == 0 {
			return
		}
		wanted := map[socket]string{}
		for _, l := range asked {
			wanted[l.socket] = ""
		}
		readInodes("/proc/net/tcp", wanted)
		owner := ownersOf(o.names())
		for _, l := range asked {
			l.found <- owner[wanted[l.socket]]
		}
	}
}

// readInodes fills in the inodes of sockets from the kernel's table of IPv4
// connections. Those that are not there stay without one.
func readInodes(table string, wanted map[socket]string) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 10 {
			continue
		}
		key := socket{fields[1], fields[2]}
		if _, ok := wanted[key]; ok {
			wanted[key] = fields[9]
		}
	}
}

// tableAddress writes an address as the kernel's table does: the four bytes
// as a number of this machine's order, in hexadecimal.
func tableAddress(a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return ""
	}
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], binary.NativeEndian.Uint32(ip))
	return strings.ToUpper(hex.EncodeToString(raw[:])) + fmt.Sprintf(":%04X", a.Port)
}

// ownersOf names the processes by the inodes of the sockets that they have open.
func ownersOf(names map[int]string) map[string]string {
	owner := map[string]string{}
	for pid, name := range names {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			continue // the pattern is good
		}
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil {
				if inode, ok := strings.CutPrefix(to, "socket:["); ok {
					owner[strings.TrimSuffix(inode, "]")] = name
				}
			}
		}
	}
	return owner
}
