package cluster

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestKeyedSendThroughEveryNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	first := mustDo(t, c.nodes["a"], keyed("q", "k", "hello"))
	if first.Code != fsm.CodeOK || first.ID != (fsm.MessageID{Queue: 1, Message: 1}) {
		t.Fatalf("first send: %+v", first)
	}
	for _, n := range c.others() {
		if r := mustDo(t, n, keyed("q", "k", "again")); r.Code != fsm.CodeDuplicate || r.ID != first.ID {
			t.Errorf("%s: retry: %+v", name(n), r)
		}
		if s := stats(t, n, "q"); s.Total != 1 || s.DedupKeys != 1 {
			t.Errorf("%s: stats: %+v", name(n), s)
		}
	}
	c.settled()
}

func TestConcurrentSendersOfOneKey(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	const senders = 64
	nodes := c.others()
	results := make(chan fsm.Result, senders)
	for i := range senders {
		go func() {
			cmd := keyed("q", "k", "x")
			r, err := nodes[i%len(nodes)].Do(t.Context(), &cmd)
			if err != nil {
				t.Errorf("sender %d: %v", i, err)
			}
			results <- r
		}()
	}
	count := make(map[fsm.Code]int)
	for range senders {
		count[(<-results).Code]++
	}
	if count[fsm.CodeOK] != 1 || count[fsm.CodeOK]+count[fsm.CodeDuplicate]+count[fsm.CodeDedupInFlight] != senders {
		t.Errorf("codes: %v", count)
	}
	if s := stats(t, nodes[1], "q"); s.Total != 1 {
		t.Errorf("%d messages", s.Total)
	}
	c.settled()
}

func TestManyCommandsThroughAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["b"], "q")
	const each, workers = 40, 8
	var wg sync.WaitGroup
	for _, n := range c.others() {
		for w := range workers {
			wg.Go(func() {
				for i := range each {
					cmd := keyed("q", name(n)+key(w*each+i), "payload")
					if r, err := n.Do(t.Context(), &cmd); err != nil || r.Code != fsm.CodeOK {
						t.Errorf("send: %+v, %v", r, err)
					}
				}
			})
		}
	}
	wg.Wait()
	if s := stats(t, c.nodes["c"], "q"); s.Total != 3*each*workers || s.DedupKeys != 3*each*workers {
		t.Errorf("stats: %+v", s)
	}
	c.settled()
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		t.Run(store, func(t *testing.T) {
			c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.LogStore = store })
			makeQueue(t, c.nodes["a"], "q")
			ids := make(map[int]fsm.MessageID)
			send := func(n *Node, i int, want fsm.Code) {
				t.Helper()
				r := mustDo(t, n, keyed("q", key(i), "x"))
				if r.Code != want || (want == fsm.CodeDuplicate && r.ID != ids[i]) {
					t.Errorf("%s: send %d: %+v, want code %d and id %v", name(n), i, r, want, ids[i])
				}
				ids[i] = r.ID
			}
			for i := range 10 {
				send(c.nodes["a"], i, fsm.CodeOK)
			}
			// One node comes back, with another address, and learns what it missed.
			leader := c.leader()
			old := c.addressOf(name(leader))
			c.stop(name(leader))
			for i := range 10 {
				send(c.leader(), 10+i, fsm.CodeOK)
			}
			back := c.start(name(leader))
			if c.addressOf(name(back)) == old {
				t.Fatal("the address did not change")
			}
			c.leader()
			c.settled()
			// All stop at once and come back with other addresses.
			hash := back.Status().Hash
			c.stopAll()
			c.startAll()
			c.leader()
			for i := range 20 {
				send(c.nodes[c.names[i%3]], i, fsm.CodeDuplicate)
			}
			if hash == 0 {
				t.Error("no hash")
			}
			c.settled()
		})
	}
}

func TestSingleNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.nodes["a"]
	makeQueue(t, n, "q")
	if r := mustDo(t, n, keyed("q", "k", "x")); r.Code != fsm.CodeOK {
		t.Fatalf("send: %+v", r)
	}
	if err := n.Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	c.stop("a")
	n = c.start("a")
	if r := mustDo(t, n, keyed("q", "k", "x")); r.Code != fsm.CodeDuplicate {
		t.Errorf("retry: %+v", r)
	}
}

func TestCapsComeFromTheConfiguration(t *testing.T) {
	t.Parallel()
	caps := fsm.Caps{MaxMessages: 2}
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.Caps = &caps })
	makeQueue(t, c.nodes["a"], "q")
	for i, want := range []fsm.Code{fsm.CodeOK, fsm.CodeOK, fsm.CodeSpoolFull, fsm.CodeSpoolFull} {
		if r := mustDo(t, c.nodes["b"], keyed("q", key(i), "")); r.Code != want {
			t.Errorf("send %d: code %d, want %d", i, r.Code, want)
		}
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	payload := "\x00\xff\xfe not text"
	sent := mustDo(t, c.nodes["a"], keyed("q", "k", payload))
	handle := fsm.Token{Sort: fsm.Handle, Queue: sent.ID.Queue, Message: sent.ID.Message, Moves: sent.Moves}
	for _, n := range c.others() {
		a, err := n.Read(within(t), fsm.Query{Kind: fsm.QueryInspect, Spool: fsm.DefaultSpool, Token: handle})
		if err != nil || a.Code != fsm.CodeOK || a.Payload != payload || len(a.Messages) != 1 {
			t.Errorf("%s: inspect: %+v, %v", name(n), a, err)
		}
		a, err = n.Read(within(t), fsm.Query{Kind: fsm.QueryMessages, Spool: fsm.DefaultSpool, Queue: "q", Limit: 10})
		if err != nil || len(a.Messages) != 1 || a.Messages[0].ID != sent.ID {
			t.Errorf("%s: messages: %+v, %v", name(n), a, err)
		}
		a, err = n.Read(within(t), fsm.Query{Kind: fsm.QueryQueue, Spool: "nowhere", Queue: "q"})
		if err != nil || a.Code != fsm.CodeSpoolNotFound {
			t.Errorf("%s: missing spool: %+v, %v", name(n), a, err)
		}
		s, ok := n.Sealer()
		if text := s.Seal(handle); !ok || text == "" {
			t.Errorf("%s: no sealer", name(n))
		}
		if code := n.SpoolState("nowhere"); code != fsm.CodeSpoolNotFound {
			t.Errorf("%s: spool state %d", name(n), code)
		}
	}
}

// TestReadAfterWrite reads at one node what was written at another.
func TestReadAfterWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	makeQueue(t, c.nodes["a"], "q")
	for i := range 50 {
		mustDo(t, c.nodes[c.names[i%3]], keyed("q", key(i), ""))
		if s := stats(t, c.nodes[c.names[(i+1)%3]], "q"); s.Total != uint64(i+1) {
			t.Fatalf("after send %d: %d messages", i+1, s.Total)
		}
	}
}

// TestUnreadableEntryStopsTheNode puts an entry into the log that this version
// does not know.
func TestUnreadableEntryStopsTheNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.nodes["a"]
	makeQueue(t, n, "q")
	entry := fsm.AppendBatch(nil, fsm.Batch{NowMs: 1, Commands: []fsm.Command{{Op: fsm.OpInit, ClusterID: "x"}}})
	entry[bytes.IndexByte(entry[2:], byte(fsm.OpInit))+2+1] = 250 // the op, after the count
	if _, err := fsm.DecodeBatch(entry); err == nil {
		t.Fatal("the entry can be read")
	}
	n.raft.Load().Apply(entry, 0)
	select {
	case err := <-n.Failed():
		if !strings.Contains(err.Error(), "log entry") {
			t.Errorf("failed with %v", err)
		}
	case <-within(t).Done():
		t.Fatal("the node goes on")
	}
	cmd := keyed("q", "k", "")
	if _, err := n.Do(t.Context(), &cmd); !errors.Is(err, fsm.ErrClosed) {
		t.Errorf("a failed node answered %v", err)
	}
	// It fails again when it is started again, rather than skip the entry.
	c.stop("a")
	n = c.start("a")
	select {
	case <-n.Failed():
	case <-within(t).Done():
		t.Fatal("the node skipped the entry")
	}
}
