package deploy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from below those that the kernel gives to outgoing
// connections, so that none of these sits on the port of a node that is down.
const (
	firstPort = 15_000
	lastPort  = 30_000
)

// taken are the ports that this process has handed out.
var taken = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freeAddress finds a loopback port that is free for TCP and UDP, and that was
// not handed out before. Several harnesses may look at the same time, so it
// does not follow from the seed.
func freeAddress() (string, error) {
	taken.Lock()
	defer taken.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if !taken.ports[port] && isFree(addr) {
			taken.ports[port] = true
			return addr, nil
		}
	}
	return "", errors.New("no loopback port is free")
}

func isFree(addr string) bool {
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp4", addr)
	if err != nil {
		return false
	}
	u.Close()
	return true
}
