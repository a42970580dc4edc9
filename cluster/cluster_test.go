package cluster

import (
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestKeyedSendThroughEveryNode(t *testing.T) {
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
