package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// TestCluster is the life of a cluster of three real processes. Each part goes
// on with what the last one left.
func TestCluster(t *testing.T) {
	needsProcesses(t)
	members := newCluster(t)
	a, err := members[0].call(http.MethodPut, queuePath, `{"dedupWindowSeconds":3600}`)
	if err != nil || a.status != http.StatusCreated {
		t.Fatalf("create: %d %s %v", a.status, a.body, err)
	}
	ids := map[string]string{} // by key
	checkAll := func() {
		t.Helper()
		for key, id := range ids {
			for _, m := range members {
				m.remembers(key, id)
			}
		}
	}

	t.Log("a keyed send to each node, and again to the others")
	for _, m := range members {
		key := "at-" + m.id
		a, err := m.send(key)
		if err != nil || a.status != http.StatusCreated {
			t.Fatalf("send at %s: %d %s %v", m.id, a.status, a.body, err)
		}
		ids[key] = a.header.Get("Spooler-Message-Id")
	}
	checkAll()

	t.Log("the leader is killed, a survivor takes a send, the old leader comes back")
	old := leader(t, members)
	old.proc.kill()
	for _, m := range members {
		if m != old {
			key := "without-leader-at-" + m.id
			ids[key] = m.sendUntilStored(key)
		}
	}
	old.start()
	old.awaitReady()
	checkAll()

	t.Log("each is stopped gently while the others go on")
	for _, m := range members {
		if code := m.proc.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("%s ended with code %d", m.id, code)
		}
		for _, other := range members {
			if other != m {
				key := "without-" + m.id + "-at-" + other.id
				ids[key] = other.sendUntilStored(key)
			}
		}
		m.start()
		m.awaitReady()
	}
	checkAll()

	t.Log("all are killed and start again from disk")
	for _, m := range members {
		m.proc.kill()
	}
	startAll(t, members)
	checkAll()

	t.Log("one comes back with new addresses, then all do")
	members[1].proc.signal(syscall.SIGTERM)
	members[1].peer, members[1].gossip = freeAddress(t), freeAddress(t)
	members[1].start()
	members[1].awaitReady()
	checkAll()
	for _, m := range members {
		m.proc.kill()
	}
	newAddresses(t, members)
	startAll(t, members)
	checkAll()
}

// leader finds the leader by what each node tells of itself.
func leader(t *testing.T, members []*member) *member {
	t.Helper()
	var found *member
	eventually(t, "one leader", func() (bool, string) {
		found = nil
		state := ""
		for _, m := range members {
			a, err := m.call(http.MethodGet, "/metrics", "")
			if err != nil || a.status != http.StatusOK {
				return false, fmt.Sprintf("%s: %d %v", m.id, a.status, err)
			}
			if strings.Contains(a.body, leaderMetric) {
				if found != nil {
					return false, "two leaders"
				}
				found = m
			}
			state += m.id + " "
		}
		return found != nil, "none among " + state
	})
	return found
}

// TestGentleStop: a waiting receive is answered, not cut off, and the next
// node has the message.
func TestGentleStop(t *testing.T) {
	needsProcesses(t)
	members := newCluster(t)
	if a, err := members[0].call(http.MethodPut, queuePath, `{}`); err != nil || a.status != http.StatusCreated {
		t.Fatalf("create: %d %s %v", a.status, a.body, err)
	}
	m := leader(t, members)
	type result struct {
		answer
		err error
	}
	waiting := make(chan result, 1)
	go func() {
		a, err := m.call(http.MethodPost, queuePath+"/recv?waitSeconds=10", "")
		waiting <- result{a, err}
	}()
	eventually(t, "the receive waits", func() (bool, string) {
		a, err := m.call(http.MethodGet, "/metrics", "")
		// One is the receive, one the page itself.
		return err == nil && strings.Contains(a.body, "\nspoolraft_http_requests_in_flight 2\n"), a.body
	})
	if code := m.proc.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("the leader ended with code %d", code)
	}
	if r := <-waiting; r.err != nil || r.status != http.StatusNoContent && r.status != http.StatusServiceUnavailable {
		t.Errorf("the waiting receive: %d %s %v", r.status, r.body, r.err)
	}
	for _, other := range members {
		if other == m {
			continue
		}
		a, err := other.call(http.MethodPost, queuePath+"/send", "x")
		if err != nil || a.status != http.StatusCreated {
			t.Errorf("send at %s right after the handover: %d %s %v", other.id, a.status, a.body, err)
		}
	}
}

// leaderMetric is the line of /metrics that only a leader has.
const leaderMetric = "\nspoolraft_raft_is_leader 1\n"
